//! Does the relay's recurrence give the times of its events, and is it bounded as it must be?

use proptest::collection::vec;
use proptest::prelude::*;
use scalewright::schedule::layer_relay::{Layer, LayerRelayStep, Request, layer_relay};
use scalewright::solve::{Dependency, QueueDiscipline, Tasks, simulate};

fn relay(request: &Request) -> LayerRelayStep {
    layer_relay(request).expect("a request that can run")
}

fn after(task: u32) -> Dependency {
    Dependency { task, delay: 0.0 }
}

/// The step's events: a task per micro-batch and pass, load, store and update.
struct Events<'a> {
    request: &'a Request,
    tasks: Tasks,
    device: u32,
    from_host: u32,
    to_host: u32,
    host: u32,
    /// Last forward pass of each layer, and its inputs on their way.
    forward: Vec<u32>,
    inputs: Vec<Option<u32>>,
    backward: Vec<u32>,
    gradients: Vec<u32>,
}

impl<'a> Events<'a> {
    fn new(request: &'a Request) -> Self {
        let mut tasks = Tasks::new();
        let [device, from_host, to_host, host] =
            [0; 4].map(|_| tasks.engine(QueueDiscipline::Added));
        Self {
            request,
            tasks,
            device,
            from_host,
            to_host,
            host,
            forward: vec![],
            inputs: vec![],
            backward: vec![],
            gradients: vec![],
        }
    }

    /// All micro-batches of a pass; only the first waits.
    fn passes(&mut self, seconds: f64, waits: &[Dependency]) -> u32 {
        let mut last = self.tasks.add(self.device, seconds, waits);
        for _ in 1..self.request.micro_batches {
            last = self.tasks.add(self.device, seconds, &[]);
        }
        last
    }

    fn moves(&mut self, engine: u32, seconds: f64, waits: &[Dependency]) -> u32 {
        let mut last = self.tasks.add(engine, seconds, waits);
        for _ in 1..self.request.micro_batches {
            last = self.tasks.add(engine, seconds, &[]);
        }
        last
    }

    fn run(mut self) -> f64 {
        let Request {
            layers,
            buffers,
            offload_inputs,
            ..
        } = self.request;
        let count = layers.len();
        let gone = count.saturating_sub(*buffers);
        for (index, layer) in layers.iter().enumerate() {
            let back = index.checked_sub(*buffers);
            let room: Vec<Dependency> =
                back.map(|at| after(self.forward[at])).into_iter().collect();
            let loaded = self.tasks.add(self.from_host, layer.load_s, &room);
            let mut waits = vec![after(loaded)];
            waits.extend(back.and_then(|at| self.inputs[at]).map(after));
            let last = self.passes(layer.forward_s, &waits);
            self.forward.push(last);
            let leaves = *offload_inputs && index < gone;
            let left = leaves.then(|| self.moves(self.to_host, layer.input_s, &[after(last)]));
            self.inputs.push(left);
        }
        for (turn, layer) in layers.iter().rev().enumerate() {
            let index = count - 1 - turn;
            let back = turn.checked_sub(*buffers);
            let mut waits: Vec<Dependency> = Vec::new();
            waits.extend(back.map(|at| after(self.gradients[at])));
            if index < gone {
                let mut room: Vec<Dependency> = Vec::new();
                room.extend(back.map(|at| after(self.backward[at])));
                room.extend(self.inputs[index].map(after));
                let mut loaded = self.tasks.add(self.from_host, layer.load_s, &room);
                if *offload_inputs {
                    loaded = self.moves(self.from_host, layer.input_s, &[]);
                }
                waits.push(after(loaded));
            }
            let last = self.passes(layer.backward_s, &waits);
            self.backward.push(last);
            let stored = self.tasks.add(self.to_host, layer.store_s, &[after(last)]);
            self.gradients.push(stored);
            self.tasks
                .add(self.host, layer.optimizer_s, &[after(stored)]);
        }
        simulate(&self.tasks)
            .expect("an order that runs")
            .makespan()
    }
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs())
}

fn seconds() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), Just(1.0), 0.0..1.0, 0.0..20.0]
}

fn any_request() -> impl Strategy<Value = Request> {
    let passes = (seconds(), seconds(), seconds());
    let layer = (
        passes,
        (seconds(), seconds(), seconds()),
        vec(0.0..9.0_f64, 4),
    );
    let layer = layer.prop_map(|((f, b, load), (store, update, input), bytes)| Layer {
        forward_s: f,
        backward_s: b,
        load_s: load,
        store_s: store,
        optimizer_s: update,
        input_s: input,
        weight_bytes: bytes[0],
        gradient_bytes: bytes[1],
        input_bytes: bytes[2],
        working_bytes: bytes[3],
    });
    (vec(layer, 1..12), 1..7_u32, 1..5_usize, any::<bool>()).prop_map(
        |(layers, micro_batches, buffers, offload_inputs)| Request {
            layers,
            micro_batches,
            buffers,
            offload_inputs,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_recurrence_is_the_event_simulation(request in any_request()) {
        let found = relay(&request);
        let witness = Events::new(&request).run();
        prop_assert!(close(found.step_time_s, witness), "{found:?} is not {witness}");
    }

    #[test]
    fn a_step_lies_between_its_bounds(request in any_request()) {
        let found = relay(&request);
        let serial = found.compute_s + found.load_s + found.store_s + found.optimizer_s;
        prop_assert!(found.lower_bound_s <= found.step_time_s * (1.0 + 1e-9));
        prop_assert!(found.step_time_s <= serial * (1.0 + 1e-9));
        prop_assert!(found.compute_s <= found.device_s * (1.0 + 1e-9));
        prop_assert!(found.device_s <= found.step_time_s);
    }

    #[test]
    fn another_buffer_costs_memory_and_no_time(request in any_request()) {
        let one = relay(&request);
        let more = relay(&Request { buffers: request.buffers + 1, ..request });
        prop_assert!(more.step_time_s <= one.step_time_s * (1.0 + 1e-9), "{more:?} against {one:?}");
        prop_assert!(more.device_bytes >= one.device_bytes);
    }

    #[test]
    fn offloaded_inputs_cost_time_and_save_memory(mut request in any_request()) {
        request.offload_inputs = true;
        let off = relay(&request);
        request.offload_inputs = false;
        let on = relay(&request);
        prop_assert!(off.step_time_s >= on.step_time_s * (1.0 - 1e-9));
        prop_assert!(off.device_bytes <= on.device_bytes * (1.0 + 1e-9));
    }

    #[test]
    fn slower_parts_never_end_the_step_sooner(
        request in any_request(), at in 0..12_usize, by in seconds(),
    ) {
        let before = relay(&request).step_time_s;
        let slower = |change: fn(&mut Layer, f64)| {
            let mut request = request.clone();
            let at = at % request.layers.len();
            change(&mut request.layers[at], by);
            relay(&request).step_time_s
        };
        let all: [fn(&mut Layer, f64); 4] = [
            |l, by| l.forward_s += by,
            |l, by| l.load_s += by,
            |l, by| l.store_s += by,
            |l, by| l.optimizer_s += by,
        ];
        for change in all {
            prop_assert!(slower(change) >= before * (1.0 - 1e-9));
        }
    }
}

fn alike(layers: usize, micro_batches: u32) -> Request {
    let layer = Layer {
        forward_s: 1.0,
        backward_s: 3.0,
        load_s: 4.0,
        store_s: 2.0,
        optimizer_s: 3.0,
        weight_bytes: 10.0,
        gradient_bytes: 10.0,
        input_bytes: 1.0,
        working_bytes: 5.0,
        ..Layer::default()
    };
    Request {
        layers: vec![layer; layers],
        micro_batches,
        buffers: 2,
        offload_inputs: false,
    }
}

#[test]
fn enough_micro_batches_hide_the_host() {
    // four micro-batches compute as long as a layer loads: only the first load, and the last store
    // and update, stand alone
    let found = relay(&alike(24, 4));
    assert!(
        close(found.step_time_s, 24.0 * 4.0 * 4.0 + 4.0 + 2.0 + 3.0),
        "{found:?}"
    );
    // with one, the link rules both ways: 24 loads, a pass down and up, 22 loads, the last pass
    let found = relay(&alike(24, 1));
    assert!(
        close(found.device_s, 24.0 * 4.0 + 1.0 + 3.0 + 22.0 * 4.0 + 3.0),
        "{found:?}"
    );
}

#[test]
fn memory_does_not_grow_with_depth_but_for_inputs() {
    let [short, long] = [12, 96].map(|layers| relay(&alike(layers, 8)));
    assert!(close(
        short.device_bytes - short.input_bytes,
        2.0 * 10.0 + 2.0 * 10.0 + 5.0
    ));
    assert!(close(
        long.device_bytes - long.input_bytes,
        short.device_bytes - short.input_bytes
    ));
    assert!(close(long.input_bytes, 96.0 * 8.0));
    let mut request = alike(96, 8);
    request.offload_inputs = true;
    assert!(close(relay(&request).input_bytes, 3.0 * 8.0));
}

#[test]
fn what_is_wrong_is_refused_with_the_field() {
    let said = |request: &Request| layer_relay(request).expect_err("wrong").to_string();
    let mut request = alike(4, 2);
    request.layers[3].load_s = f64::NAN;
    assert!(said(&request).contains("layers[3].load_s: got NaN"));
    request = Request {
        buffers: 0,
        ..alike(4, 2)
    };
    assert!(said(&request).contains("buffers: got 0"));
    request = alike(4, 0);
    assert!(said(&request).contains("micro_batches: got 0"));
    request = alike(0, 1);
    assert!(said(&request).contains("layers: got 0"));
}
