//! Stage times in; makespan, bubble and activations in flight out: one file per schedule.
