//! What is the inverse of the kernel, and how does one exchange change it?

/// Inverse of a square matrix whose rows and columns come and go one at a time.
///
/// The kernel has a row for each tight row and a column for each basic variable; the inverse has a
/// row for each basic variable. Each change is a rank-one correction (Sherman and Morrison 1950).
#[derive(Debug, Default)]
pub(super) struct Inverse {
    values: Vec<f64>,
    stride: usize,
    size: usize,
    /// One row or column, while the others change by it.
    line: Vec<f64>,
    order: Vec<usize>,
}

/// A pivot below this is zero.
const SINGULAR: f64 = 1e-9;

impl Inverse {
    pub(super) fn clear(&mut self) {
        self.size = 0;
    }

    pub(super) fn copy(&mut self, other: &Self) {
        self.values.clone_from(&other.values);
        (self.stride, self.size) = (other.stride, other.size);
    }

    pub(super) fn row(&self, basic: usize) -> &[f64] {
        &self.values[basic * self.stride..][..self.size]
    }

    /// `out` = inverse * `column`.
    pub(super) fn times(&self, column: &[f64], out: &mut Vec<f64>) {
        out.clear();
        out.extend((0..self.size).map(|basic| dot(self.row(basic), column)));
    }

    /// `out` = `row` * inverse.
    pub(super) fn before(&self, row: &[f64], out: &mut Vec<f64>) {
        out.clear();
        out.resize(self.size, 0.0);
        for (basic, &factor) in row.iter().enumerate() {
            if factor != 0.0 {
                add(out, factor, self.row(basic));
            }
        }
    }

    /// A new row and column: `column` and `row` are what they make with the inverse, and
    /// `pivot` is their own entry less row * inverse * column.
    pub(super) fn grow(&mut self, column: &[f64], row: &[f64], pivot: f64) {
        let size = self.size;
        if size + 1 > self.stride {
            self.widen();
        }
        for (basic, &factor) in column.iter().enumerate() {
            let line = &mut self.values[basic * self.stride..][..=size];
            if factor != 0.0 {
                add(&mut line[..size], factor / pivot, row);
            }
            line[size] = -factor / pivot;
        }
        let last = &mut self.values[size * self.stride..][..=size];
        for (entry, &factor) in last.iter_mut().zip(row) {
            *entry = -factor / pivot;
        }
        last[size] = 1.0 / pivot;
        self.size += 1;
    }

    /// Another column in place of `basic`; `column` is what it makes with the inverse.
    pub(super) fn replace_column(&mut self, basic: usize, column: &[f64]) {
        self.line.clear();
        let pivot = column[basic];
        let kept = &self.values[basic * self.stride..][..self.size];
        self.line.extend(kept.iter().map(|entry| entry / pivot));
        for (other, &factor) in column.iter().enumerate() {
            let row = &mut self.values[other * self.stride..][..self.size];
            if other == basic {
                row.copy_from_slice(&self.line);
            } else if factor != 0.0 {
                add(row, -factor, &self.line);
            }
        }
    }

    /// Another row in place of `tight`; `row` is what it makes with the inverse.
    pub(super) fn replace_row(&mut self, tight: usize, row: &[f64]) {
        for basic in 0..self.size {
            let line = &mut self.values[basic * self.stride..][..self.size];
            let factor = line[tight] / row[tight];
            if factor != 0.0 {
                add(line, -factor, row);
                line[tight] = factor;
            }
        }
    }

    /// Without column `basic` and row `tight`; the last ones take their places.
    pub(super) fn shrink(&mut self, basic: usize, tight: usize) {
        self.line.clear();
        let kept = &self.values[basic * self.stride..][..self.size];
        self.line.extend_from_slice(kept);
        let pivot = self.line[tight];
        let last = self.size - 1;
        for other in 0..self.size {
            let row = &mut self.values[other * self.stride..][..self.size];
            let factor = row[tight] / pivot;
            if other != basic && factor != 0.0 {
                add(row, -factor, &self.line);
            }
            row[tight] = row[last];
        }
        let from = last * self.stride;
        self.values
            .copy_within(from..from + last, basic * self.stride);
        self.size = last;
    }

    /// Row `basic` becomes minus itself and minus the rows of `others`: a new key for an item.
    pub(super) fn turn(&mut self, basic: usize, others: &[u32]) {
        self.line.clear();
        let own = &self.values[basic * self.stride..][..self.size];
        self.line.extend_from_slice(own);
        for &other in others {
            let row = &self.values[other as usize * self.stride..][..self.size];
            add(&mut self.line, 1.0, row);
        }
        let row = &mut self.values[basic * self.stride..][..self.size];
        for (entry, sum) in row.iter_mut().zip(&self.line) {
            *entry = -sum;
        }
    }

    /// Inverts `matrix` (by rows, overwritten). Where it is singular, says a column that depends on
    /// those before it and a row that none of them needs.
    ///
    /// Gauss and Jordan with the largest pivot of each column.
    pub(super) fn invert(&mut self, matrix: &mut [f64], size: usize) -> Result<(), (usize, usize)> {
        self.order.clear();
        self.order.extend(0..size);
        while self.stride < size {
            self.widen();
        }
        self.size = size;
        for row in 0..size {
            let line = &mut self.values[row * self.stride..][..size];
            line.fill(0.0);
            line[row] = 1.0;
        }
        for column in 0..size {
            let largest = (column..size).max_by(|&a, &b| {
                let entry = |row: usize| matrix[row * size + column].abs();
                entry(a).total_cmp(&entry(b))
            });
            let largest = largest.unwrap_or(column);
            let pivot = matrix[largest * size + column];
            if pivot.abs() < SINGULAR {
                return Err((column, self.order[largest]));
            }
            self.order.swap(largest, column);
            for place in 0..size {
                matrix.swap(largest * size + place, column * size + place);
                let (a, b) = (largest * self.stride + place, column * self.stride + place);
                self.values.swap(a, b);
            }
            self.eliminate(matrix, column, pivot);
        }
        Ok(())
    }

    fn eliminate(&mut self, matrix: &mut [f64], column: usize, pivot: f64) {
        let (size, stride) = (self.size, self.stride);
        let mut own = std::mem::take(&mut self.line);
        own.clear();
        own.extend(
            matrix[column * size..][..size]
                .iter()
                .map(|entry| entry / pivot),
        );
        let kept = &self.values[column * stride..][..size];
        own.extend(kept.iter().map(|entry| entry / pivot));
        for row in 0..size {
            let factor = matrix[row * size + column];
            if row != column && factor != 0.0 {
                add(&mut matrix[row * size..][..size], -factor, &own[..size]);
                let line = &mut self.values[row * stride..][..size];
                add(line, -factor, &own[size..]);
            }
        }
        matrix[column * size..][..size].copy_from_slice(&own[..size]);
        self.values[column * stride..][..size].copy_from_slice(&own[size..]);
        self.line = own;
    }

    fn widen(&mut self) {
        let stride = (2 * self.stride).max(8);
        self.values.resize(stride * stride, 0.0);
        for row in (0..self.size).rev() {
            let from = row * self.stride;
            self.values
                .copy_within(from..from + self.size, row * stride);
        }
        self.stride = stride;
    }
}

fn add(line: &mut [f64], factor: f64, other: &[f64]) {
    for (entry, term) in line.iter_mut().zip(other) {
        *entry += factor * term;
    }
}

/// Four running sums, so that the additions do not wait for one another.
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 4];
    let (a_four, b_four) = (a.chunks_exact(4), b.chunks_exact(4));
    let rest = a_four.remainder().iter().zip(b_four.remainder());
    let rest: f64 = rest.map(|(x, y)| x * y).sum();
    for (x, y) in a_four.zip(b_four) {
        for place in 0..4 {
            sums[place] += x[place] * y[place];
        }
    }
    sums[0] + sums[1] + (sums[2] + sums[3]) + rest
}
