#include "core/kalman_diffuse.hpp"

#include <cmath>
#include <limits>

namespace tagloom {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kRounding = 1e-14;  // a variance below this part of its terms is rounding
constexpr double kRank = 1e-11;      // a singular value below this part of the largest is 0

double norm(const double* x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += x[i] * x[i];
    return std::sqrt(sum);
}

// The number of independent columns, each taken in its own unit.
int64_t rank_of(DenseMatrix M) {
    for (int64_t j = 0; j < M.cols; ++j) {
        double sum = 0;
        for (int64_t i = 0; i < M.rows; ++i) sum += M(i, j) * M(i, j);
        for (int64_t i = 0; i < M.rows && sum > 0; ++i) M(i, j) /= std::sqrt(sum);
    }
    const SingularValues values(std::move(M));
    int64_t rank = 0;
    while (rank < int64_t(values.s.size()) && values.s[rank] > kRank) ++rank;
    return rank;
}

// cov with +-inf wherever the directions [n, k] of infinite variance reach.
DenseMatrix with_infinite(DenseMatrix cov, const DenseMatrix& directions) {
    if (!directions.cols) return cov;
    const DenseMatrix infinite = directions * directions.transposed();
    double most = 0;
    for (int64_t i = 0; i < cov.rows; ++i) most = std::max(most, infinite(i, i));
    for (int64_t i = 0; i < cov.rows; ++i)
        for (int64_t j = 0; j < cov.cols; ++j)
            if (std::abs(infinite(i, j)) >
                1e-18 * most + 1e-12 * std::sqrt(infinite(i, i) * infinite(j, j)))
                cov(i, j) = infinite(i, j) < 0 ? -kInfinite : kInfinite;
    return cov;
}

}  // namespace

DiffuseStart::DiffuseStart(int64_t n, const double* mean, const double* cov,
                           const uint8_t* is_diffuse)
    : n_(n), q_(0), a_(mean, n, 1), P_(cov, n, n) {
    for (int64_t i = 0; i < n; ++i) q_ += is_diffuse[i] ? 1 : 0;
    B_ = DenseMatrix(n, q_);
    for (int64_t i = 0, k = 0; i < n; ++i) {
        if (!is_diffuse[i]) continue;
        B_(i, k++) = 1;
        for (int64_t j = 0; j < n; ++j) P_(i, j) = P_(j, i) = 0;
    }
    R_ = DenseMatrix(q_, q_);
    z_ = DenseMatrix(q_, 1);
    H_ = DenseMatrix(0, q_);
    h_ = DenseMatrix(0, 1);
}

void DiffuseStart::predict(const double* A, const double* Q, const double* b) {
    const DenseMatrix transition(A, n_, n_);
    a_ = transition * a_ + DenseMatrix(b, n_, 1);
    B_ = transition * B_;
    P_ = sandwich(transition, P_) + DenseMatrix(Q, n_, n_);
}

void DiffuseStart::observe(const double* C, const double* r, int64_t rows, const double* y) {
    const DenseMatrix before = P_;
    for (int64_t i = 0; i < rows; ++i) observe(C + i * n_, r[i], y[i], before);
}

// As in the kernels, but that the prediction of y has a part e d as well.
void DiffuseStart::observe(const double* c, double r, double y, const DenseMatrix& before) {
    const DenseMatrix row(c, 1, n_);
    const DenseMatrix g = P_ * row.transposed();
    std::vector<double> e = (row * B_).data;
    const double error = y - (row * a_)(0, 0), f = r + (row * g)(0, 0);
    double most = r;
    for (int64_t j = 0; j < n_; ++j) most += c[j] * c[j] * before(j, j);
    if (!(f > kRounding * double(n_) * most)) {
        double reach = 0;
        for (int64_t j = 0; j < n_; ++j) reach += std::abs(c[j]) * norm(B_.row(j), q_);
        constrain(e, error, reach, 1e-7 * std::sqrt(most) + 1e-9 * std::abs(y));
        return;
    }
    DenseMatrix k = g;
    for (double& x : k.data) x /= f;
    for (int64_t i = 0; i < n_; ++i) {
        a_(i, 0) += k(i, 0) * error;
        for (int64_t j = 0; j < q_; ++j) B_(i, j) -= k(i, 0) * e[j];
    }
    const DenseMatrix X = DenseMatrix::identity(n_) - k * row;
    P_ = sandwich(X, P_);
    for (int64_t i = 0; i < n_; ++i)
        for (int64_t j = 0; j < n_; ++j) P_(i, j) += r * k(i, 0) * k(j, 0);
    log_det_ += std::log(f);
    for (double& x : e) x /= std::sqrt(f);
    learn(e, error / std::sqrt(f));
}

// row d = value with unit noise, turned into the triangle R by Givens rotations.
void DiffuseStart::learn(std::vector<double> row, double value) {
    for (int64_t j = 0; j < q_; ++j) {
        if (row[j] == 0) continue;
        const double length = std::hypot(R_(j, j), row[j]);
        const double c = R_(j, j) / length, s = row[j] / length;
        for (int64_t k = j; k < q_; ++k) {
            const double x = R_(j, k);
            R_(j, k) = c * x + s * row[k];
            row[k] = c * row[k] - s * x;
        }
        row[j] = 0;
        const double z = z_(j, 0);
        z_(j, 0) = c * z + s * value;
        value = c * value - s * z;
    }
    squares_ += value * value;
}

// row d = value without noise, unless it is known already. `most` is the size of the terms of row.
void DiffuseStart::constrain(const std::vector<double>& row, double value, double most,
                             double fit) {
    std::vector<double> rest = row;
    for (int64_t i = 0; i < H_.rows; ++i) {  // the rows of H are orthonormal
        double along = 0;
        for (int64_t j = 0; j < q_; ++j) along += H_(i, j) * row[j];
        for (int64_t j = 0; j < q_; ++j) rest[j] -= along * H_(i, j);
        value -= along * h_(i, 0);
    }
    const double length = norm(rest.data(), q_);
    if (length <= kRank * most) {
        squares_ += std::abs(value) <= fit ? -kLogTwoPi : kInfinite;
        return;
    }
    log_det_ += 2 * std::log(length);
    for (double& x : rest) x /= length;
    H_.data.insert(H_.data.end(), rest.begin(), rest.end());
    ++H_.rows;
    h_.data.push_back(value / length);
    ++h_.rows;
}

DiffuseSolution DiffuseStart::solve() const {
    DiffuseSolution out;
    out.mean = H_.transposed() * h_;
    DenseMatrix Z = DenseMatrix::identity(q_);
    if (H_.rows) {  // d = H'h + Z d', Z the directions that H leaves
        const SingularValues values(H_);
        Z = values.W.columns(H_.rows, q_);
    }
    const DenseMatrix R = R_ * Z, z = z_ - R_ * out.mean;
    const int64_t rank = rank_of(R);
    const SingularValues values(R);
    DenseMatrix scaled = values.W.columns(0, rank);  // W / s
    double log_density = squares_ + log_det_;
    for (int64_t j = 0; j < rank; ++j) {
        for (int64_t i = 0; i < scaled.rows; ++i) scaled(i, j) /= values.s[j];
        log_density += 2 * std::log(values.s[j]);
    }
    const DenseMatrix rest = scaled * (values.U.columns(0, rank).transposed() * z);
    const DenseMatrix errors = z - R * rest;
    for (double x : errors.data) log_density += x * x;
    out.mean = out.mean + Z * rest;
    out.factor = Z * scaled;
    out.free = Z * values.W.columns(rank, Z.cols);
    out.log_density = -0.5 * log_density;
    return out;
}

DiffuseMoments DiffuseStart::moments(const DiffuseSolution& solution) const {
    const DenseMatrix factor = B_ * solution.factor;
    return {a_ + B_ * solution.mean,
            with_infinite(P_ + factor * factor.transposed(), B_ * solution.free)};
}

std::vector<double> DiffuseStart::pack() const {
    std::vector<double> out = {double(n_), double(q_), double(H_.rows), squares_, log_det_};
    for (const DenseMatrix* M : {&a_, &B_, &P_, &R_, &z_, &H_, &h_})
        out.insert(out.end(), M->data.begin(), M->data.end());
    return out;
}

std::optional<DiffuseStart> DiffuseStart::unpack(const std::vector<double>& numbers) {
    constexpr size_t kHead = 5;
    if (numbers.size() < kHead) return {};
    const double n = numbers[0], q = numbers[1], rows = numbers[2];
    const bool fits = n >= 0 && q >= 0 && q <= n && rows >= 0 && rows <= q && n < 1e6 &&
                      n == std::floor(n) && q == std::floor(q) && rows == std::floor(rows);
    if (!fits || double(numbers.size() - kHead) != n + n * q + n * n + q * q + q + rows * q + rows)
        return {};
    DiffuseStart out;
    out.n_ = int64_t(n);
    out.q_ = int64_t(q);
    out.squares_ = numbers[3];
    out.log_det_ = numbers[4];
    const double* at = numbers.data() + kHead;
    auto take = [&](DenseMatrix& M, int64_t rows, int64_t cols) {
        M = DenseMatrix(at, rows, cols);
        at += rows * cols;
    };
    take(out.a_, out.n_, 1);
    take(out.B_, out.n_, out.q_);
    take(out.P_, out.n_, out.n_);
    take(out.R_, out.q_, out.q_);
    take(out.z_, out.q_, 1);
    take(out.H_, int64_t(rows), out.q_);
    take(out.h_, int64_t(rows), 1);
    return out;
}

// ---------------------------------------------------------------------------------------------
// Back: given d, x_t is J x_{t+1} + K d + k with noise M, as in the smoother of the kernels.

struct DiffuseHistory::Back {
    DenseMatrix J, K, k, M;  // [n, n], [n, q], [n, 1], [n, n]
};

DiffuseHistory::Back DiffuseHistory::back(const KalmanBackward& task, const KalmanKernels& kernels,
                                          int64_t t) const {
    const DiffuseStart& step = steps_[t];
    const int64_t n = step.n_;
    Back out{DenseMatrix(n, n), {}, {}, DenseMatrix(n, n)};
    KalmanGain gain;
    gain.n = n;
    gain.A = task.A.at(t + 1);
    gain.Q = task.Q.at(t + 1);
    gain.cov = step.P_.data.data();
    gain.workspace = task.workspace;
    gain.J = out.J.data.data();
    gain.M = out.M.data.data();
    kernels.gain(gain);
    DiffuseStart next = step;
    next.predict(task.A.at(t + 1), task.Q.at(t + 1), task.b.at(t + 1));
    out.K = step.B_ - out.J * next.B_;
    out.k = step.a_ - out.J * next.a_;
    return out;
}

namespace {

// d given the last state: mean + gain (x - mean of x), and its covariance.
struct Conditional {
    DenseMatrix gain, cov;  // [q, n], [q, q]
};

Conditional given_last(const DenseMatrix& B, const DenseMatrix& P,
                       const DiffuseSolution& solution) {
    const DenseMatrix factor = B * solution.factor;
    const DenseMatrix all = P + factor * factor.transposed();
    Conditional out;
    out.gain = SemiFactor(all).solve(factor * solution.factor.transposed()).transposed();
    const DenseMatrix rest = solution.factor - out.gain * factor;
    out.cov = rest * rest.transposed() + sandwich(out.gain, P);
    return out;
}

// [x; d] of one step, jointly.
struct Joint {
    DenseMatrix mean, cov, free;  // [n + q, 1], [n + q, n + q], [n + q, unresolved]
};

void put(DenseMatrix& to, const DenseMatrix& from, int64_t i0, int64_t j0) {
    for (int64_t i = 0; i < from.rows; ++i)
        for (int64_t j = 0; j < from.cols; ++j) to(i0 + i, j0 + j) = from(i, j);
}

DenseMatrix part(const DenseMatrix& from, int64_t i0, int64_t j0, int64_t rows, int64_t cols) {
    DenseMatrix out(rows, cols);
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < cols; ++j) out(i, j) = from(i0 + i, j0 + j);
    return out;
}

}  // namespace

void DiffuseHistory::smooth(const KalmanBackward& task, const KalmanKernels& kernels) const {
    const DiffuseStart& last = steps_.back();
    const int64_t n = last.n_, q = last.q_, end = size() - 1;
    const DiffuseSolution solution = last.solve();
    Joint joint{DenseMatrix(n + q, 1), DenseMatrix(n + q, n + q), {}};
    if (solution.is_resolved()) {
        const DenseMatrix x(task.means + end * n, n, 1), V(task.covs + end * n * n, n, n);
        const Conditional d = given_last(last.B_, last.P_, solution);
        const DenseMatrix predicted = last.a_ + last.B_ * solution.mean;
        put(joint.mean, x, 0, 0);
        put(joint.mean, solution.mean + d.gain * (x - predicted), n, 0);
        put(joint.cov, V, 0, 0);
        put(joint.cov, d.gain * V, n, 0);
        put(joint.cov, (d.gain * V).transposed(), 0, n);
        put(joint.cov, d.cov + sandwich(d.gain, V), n, n);
        joint.free = DenseMatrix(n + q, 0);
    } else {
        DenseMatrix both(n + q, n), factor(n + q, solution.factor.cols);
        put(factor, last.B_ * solution.factor, 0, 0);
        put(factor, solution.factor, n, 0);
        put(joint.mean, last.a_ + last.B_ * solution.mean, 0, 0);
        put(joint.mean, solution.mean, n, 0);
        joint.cov = factor * factor.transposed();
        put(joint.cov, part(joint.cov, 0, 0, n, n) + last.P_, 0, 0);
        joint.free = DenseMatrix(n + q, solution.free.cols);
        put(joint.free, last.B_ * solution.free, 0, 0);
        put(joint.free, solution.free, n, 0);
    }
    for (int64_t t = end - 1; t >= 0; --t) {
        const Back step = back(task, kernels, t);
        DenseMatrix map = DenseMatrix::identity(n + q), noise(n + q, n + q), lag_free;
        put(map, step.J, 0, 0);
        put(map, step.K, 0, n);
        put(noise, step.M, 0, 0);
        const DenseMatrix cross = joint.cov * map.transposed();
        DenseMatrix lag = part(cross, 0, 0, n, n);
        joint.mean = map * joint.mean;
        for (int64_t i = 0; i < n; ++i) joint.mean(i, 0) += step.k(i, 0);
        const DenseMatrix after = part(joint.free, 0, 0, n, joint.free.cols);
        joint.cov = map * cross + noise;
        joint.free = map * joint.free;
        const DenseMatrix now = part(joint.free, 0, 0, n, joint.free.cols);
        DenseMatrix cov = part(joint.cov, 0, 0, n, n);
        for (int64_t i = 0; i < n; ++i)
            for (int64_t j = 0; j < i; ++j) cov(j, i) = cov(i, j);
        cov = with_infinite(cov, now);
        if (now.cols) {
            const DenseMatrix infinite = after * now.transposed();
            for (int64_t i = 0; i < n; ++i)
                for (int64_t j = 0; j < n; ++j)
                    if (std::abs(infinite(i, j)) >
                        1e-12 * norm(after.row(i), after.cols) * norm(now.row(j), now.cols))
                        lag(i, j) = infinite(i, j) < 0 ? -kInfinite : kInfinite;
        }
        std::copy_n(joint.mean.data.data(), n, task.means + t * n);
        std::copy_n(cov.data.data(), n * n, task.covs + t * n * n);
        if (task.lags) std::copy_n(lag.data.data(), n * n, task.lags + t * n * n);
        const int32_t block = task.which ? task.which[t] : 0;
        for (int64_t j = 0; j < n * n; ++j) {
            if (task.sum_covs) task.sum_covs[block * n * n + j] += cov.data[j];
            if (task.sum_lags) task.sum_lags[j] += lag.data[j];
        }
    }
}

void DiffuseHistory::sample(const KalmanBackward& task, const KalmanKernels& kernels,
                            const double* noise, double* states) const {
    const DiffuseStart& last = steps_.back();
    const int64_t n = last.n_, q = last.q_, end = size() - 1;
    const DiffuseSolution solution = last.solve();
    const Conditional given = given_last(last.B_, last.P_, solution);
    DenseMatrix x(states + end * n, n, 1);
    const DenseMatrix d = solution.mean + given.gain * (x - last.a_ - last.B_ * solution.mean) +
                          SemiFactor(given.cov).root() * DenseMatrix(noise + end * n, q, 1);
    for (int64_t t = end - 1; t >= 0; --t) {
        const Back step = back(task, kernels, t);
        x = step.J * x + step.K * d + step.k +
            SemiFactor(step.M).root() * DenseMatrix(noise + t * n, n, 1);
        std::copy_n(x.data.data(), n, states + t * n);
    }
}

}  // namespace tagloom
