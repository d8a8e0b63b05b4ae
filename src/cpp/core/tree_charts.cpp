#include "core/tree_charts.hpp"

#include <numeric>
#include <string_view>

#include "core/dispatch.hpp"

namespace tagloom {

const TreeKernels& tree_kernels() {
    [[maybe_unused]] const std::string_view name = kernels().name;
#if defined(TL_HAVE_AVX512)
    if (name == "avx512") return tree_kernels_avx512();
#endif
#if defined(TL_HAVE_AVX2)
    if (name == "avx2") return tree_kernels_avx2();
#endif
    return tree_kernels_baseline();
}

void TreeCharts::load(const TreeBatch& batch, const int64_t* sentences, int64_t count) {
    constexpr double minus_inf = -std::numeric_limits<double>::infinity();
    batch_ = &batch;
    lanes_ = tree_kernels().lanes;
    sentences_.assign(sentences, sentences + count);
    nodes_.assign(lanes_, 0);
    int64_t n = 1;
    for (int64_t w = 0; w < count; ++w) {
        nodes_[w] = batch.length(sentences[w]) + 1;
        n = std::max(n, nodes_[w]);
    }
    const size_t size = n * n * lanes_;
    arcs_.resize(size);
    siblings_.assign(lanes_, nullptr);
    // A row of no arcs for lanes and words that are not there.
    none_.assign(n, minus_inf);
    rows_.resize(lanes_);
    for (int64_t d = 1; d < n; ++d) {
        for (int64_t w = 0; w < lanes_; ++w)
            rows_[w] = w < count && d < nodes_[w] ? batch.arcs_of(sentences[w]) + (d - 1) * batch.H
                                                  : none_.data();
        for (int64_t h = 0; h < n; ++h) {
            double* line = &arcs_[(h * n + d) * lanes_];
            for (int64_t w = 0; w < lanes_; ++w) line[w] = rows_[w][h];
        }
        std::fill_n(&arcs_[(d * n + d) * lanes_], lanes_, minus_inf);
        for (int64_t w = 0; w < count; ++w)
            for (int64_t h = nodes_[w]; h < n; ++h) arcs_[(h * n + d) * lanes_ + w] = minus_inf;
    }
    for (int64_t w = 0; w < count && batch.siblings; ++w)
        siblings_[w] = batch.siblings + batch.offsets[sentences[w]] * batch.H * batch.H;
    for (auto* table : {&complete_, &incomplete_, &split_}) table->resize(size);
    // Cells that the recursion never writes are read by nobody, except the diagonal.
    terms_.resize(n * lanes_);
    task_ = {};
    task_.n = n;
    task_.single_root = batch.single_root;
    task_.arcs = arcs_.data();
    task_.siblings = batch.siblings ? siblings_.data() : nullptr;
    task_.H = batch.H;
    task_.nodes = nodes_.data();
    task_.complete = complete_.data();
    task_.incomplete = incomplete_.data();
    task_.split = split_.data();
    task_.terms = terms_.data();
}

// The weights of arcs are divided by the largest of each word, so no tree has a weight above 1 and
// products of some of its arcs are at least its own weight. Trees lighter than the smallest double,
// 1e-308, are lost. There are fewer than 6.75^100 < 1e83 projective trees of 100 words, so beside a
// sum of at least 1e-200 what is lost cannot be seen.
bool TreeCharts::sum_weights() {
    constexpr int64_t most_nodes = 101;
    constexpr double least = 1e-200;
    if (task_.siblings || task_.n > most_nodes) return false;
    weights_.resize(arcs_.size());
    shifts_.resize(lanes_);
    tree_kernels().weigh(task_, weights_.data(), shifts_.data());
    task_.arcs = weights_.data();
    tree_kernels().linear_inside(task_);
    for (int64_t w = 0; w < count(); ++w)
        if (!(value(w, top(w)) >= least)) return false;
    return true;
}

void TreeCharts::sum() {
    is_linear_ = sum_weights();
    if (is_linear_) return;
    task_.arcs = arcs_.data();
    inside();
}

double TreeCharts::log_z(int64_t lane) const {
    const double z = value(lane, top(lane));
    return is_linear_ ? std::log(z) + shifts_[lane] : z;
}

void TreeCharts::outside(double* marginals, double* siblings) {
    const int64_t n = task_.n;
    for (auto* table : {&bar_complete_, &bar_incomplete_, &bar_split_})
        table->assign(n * n * lanes_, 0.0);
    bar_siblings_.assign(lanes_, nullptr);
    const int64_t square = task_.H * task_.H;
    std::vector<double> unused(task_.siblings && !siblings ? (n - 1) * square : 0);
    for (int64_t w = 0; w < count(); ++w) {
        const TreeItem item = top(w);
        const bool has_tree = !std::isinf(value(w, item));
        bar_complete_[(item.a * n + item.b) * lanes_ + w] =
            is_linear_ ? 1 / value(w, item) : double(has_tree);
        bar_siblings_[w] =
            siblings ? siblings + batch_->offsets[sentences_[w]] * square : unused.data();
    }
    task_.bar_complete = bar_complete_.data();
    task_.bar_incomplete = bar_incomplete_.data();
    task_.bar_split = bar_split_.data();
    task_.bar_siblings = bar_siblings_.data();
    if (is_linear_)
        tree_kernels().linear_outside(task_);
    else
        tree_kernels().outside(task_);
    unwanted_.resize(n);  // of lanes and words that are not there
    out_rows_.resize(lanes_);
    for (int64_t d = 1; d < n; ++d) {
        for (int64_t w = 0; w < lanes_; ++w)
            out_rows_[w] = w < count() && d < nodes_[w]
                               ? marginals + (batch_->offsets[sentences_[w]] + d - 1) * batch_->H
                               : unwanted_.data();
        for (int64_t h = 0; h < n; ++h) {
            const double* bar = &bar_incomplete_[(h * n + d) * lanes_];
            const double* weight = &incomplete_[(h * n + d) * lanes_];
            for (int64_t w = 0; w < lanes_; ++w)
                out_rows_[w][h] = is_linear_ ? bar[w] * weight[w] : bar[w];
        }
        for (int64_t w = 0; w < lanes_; ++w) out_rows_[w][d] = 0;
    }
}

std::vector<std::vector<int64_t>> tree_groups(const TreeBatch& batch) {
    std::vector<int64_t> order(batch.N);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t i, int64_t j) { return batch.length(i) > batch.length(j); });
    std::vector<std::vector<int64_t>> groups;
    const int64_t lanes = tree_kernels().lanes;
    for (int64_t first = 0; first < batch.N; first += lanes)
        groups.emplace_back(order.begin() + first,
                            order.begin() + std::min(batch.N, first + lanes));
    return groups;
}

}  // namespace tagloom
