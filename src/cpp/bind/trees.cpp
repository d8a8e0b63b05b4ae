// Python bindings of dependency trees: check shapes, release the GIL, call core.

#include "core/trees.hpp"

#include <tuple>

#include "bind/arrays.hpp"
#include "bind/bind.hpp"
#include "bind/casters.hpp"
#include "bind/gil.hpp"

namespace tagloom {
namespace {

using Offsets = Array<const int64_t, 1>;
using Arcs = Array<const double, 2>;
using Siblings = Maybe<const double, 3>;
template <class T, int D>
using Result = nb::ndarray<nb::numpy, T, nb::ndim<D>>;

TreeBatch to_batch(const Arcs& arcs, const Offsets& offsets, const Siblings& siblings,
                   bool projective, bool single_root, int64_t threads) {
    const int64_t T = arcs.shape(0), H = arcs.shape(1), N = int64_t(offsets.shape(0)) - 1;
    check_offsets(offsets, T);
    for (int64_t i = 0; i < N; ++i)
        require(offsets(i + 1) - offsets(i) < H, "arcs must have T + 1 columns");
    require(!siblings || projective, "siblings are scores of projective trees");
    require(!siblings || (int64_t(siblings->shape(0)) == T && int64_t(siblings->shape(1)) == H &&
                          int64_t(siblings->shape(2)) == H),
            "siblings must be [T, H, H]");
    require(threads > 0, "threads must be positive");
    return {N,          H,           offsets.data(), arcs.data(), data_or_null(siblings),
            projective, single_root, threads};
}

auto best(const Arcs& arcs, const Offsets& offsets, const Siblings& siblings, bool projective,
          bool single_root, int64_t threads) {
    const TreeBatch batch = to_batch(arcs, offsets, siblings, projective, single_root, threads);
    const size_t T = arcs.shape(0), N = batch.N;
    std::vector<int32_t> heads(T);
    std::vector<double> scores(N);
    {
        const WithoutGil unlocked;
        best_trees(batch, heads.data(), scores.data());
    }
    return std::make_tuple(nb::cast<Result<int32_t, 1>>(to_numpy(std::move(heads), {T})),
                           nb::cast<Result<double, 1>>(to_numpy(std::move(scores), {N})));
}

auto sums(const Arcs& arcs, const Offsets& offsets, const Siblings& siblings, bool projective,
          bool single_root, int64_t threads, const Maybe<double, 2>& marginals,
          const Maybe<double, 3>& sibling_marginals) {
    const TreeBatch batch = to_batch(arcs, offsets, siblings, projective, single_root, threads);
    const size_t N = batch.N;
    require(!marginals ||
                (marginals->shape(0) == arcs.shape(0) && marginals->shape(1) == arcs.shape(1)),
            "marginals must have the shape of arcs");
    require(!sibling_marginals ||
                (marginals && siblings && sibling_marginals->size() == siblings->size()),
            "sibling_marginals must have the shape of siblings, and needs marginals");
    std::vector<double> log_z(N);
    {
        const WithoutGil unlocked;
        sum_trees(batch, log_z.data(), data_or_null(marginals), data_or_null(sibling_marginals));
    }
    return nb::cast<Result<double, 1>>(to_numpy(std::move(log_z), {N}));
}

auto sample(const Arcs& arcs, const Offsets& offsets, const Siblings& siblings, bool projective,
            bool single_root, int64_t threads, int64_t draws,
            const Array<const uint64_t, 1>& seeds) {
    const TreeBatch batch = to_batch(arcs, offsets, siblings, projective, single_root, threads);
    const size_t T = arcs.shape(0), N = batch.N;
    require(draws >= 0 && seeds.shape(0) == N, "seeds must be [N], draws not negative");
    std::vector<int32_t> heads(draws * T);
    std::vector<double> log_z(N);
    {
        const WithoutGil unlocked;
        sample_trees(batch, draws, seeds.data(), heads.data(), log_z.data());
    }
    return std::make_tuple(
        nb::cast<Result<int32_t, 2>>(to_numpy(std::move(heads), {size_t(draws), T})),
        nb::cast<Result<double, 1>>(to_numpy(std::move(log_z), {N})));
}

auto nbest(const Arcs& arcs, const Offsets& offsets, const Siblings& siblings, bool projective,
           bool single_root, int64_t threads, int64_t n) {
    const TreeBatch batch = to_batch(arcs, offsets, siblings, projective, single_root, threads);
    require(n > 0, "n must be positive");
    std::vector<int64_t> counts;
    std::vector<int32_t> heads;
    std::vector<double> scores;
    {
        const WithoutGil unlocked;
        for (const auto& trees : nbest_trees(batch, n)) {
            counts.push_back(int64_t(trees.size()));
            for (const Tree& tree : trees) {
                scores.push_back(tree.score);
                heads.insert(heads.end(), tree.heads.begin(), tree.heads.end());
            }
        }
    }
    const size_t N = counts.size(), all = heads.size(), K = scores.size();
    return std::make_tuple(nb::cast<Result<int64_t, 1>>(to_numpy(std::move(counts), {N})),
                           nb::cast<Result<int32_t, 1>>(to_numpy(std::move(heads), {all})),
                           nb::cast<Result<double, 1>>(to_numpy(std::move(scores), {K})));
}

auto score(const Arcs& arcs, const Offsets& offsets, const Siblings& siblings, bool projective,
           bool single_root, int64_t threads, const Array<const int32_t, 1>& heads) {
    const TreeBatch batch = to_batch(arcs, offsets, siblings, projective, single_root, threads);
    require(heads.shape(0) == arcs.shape(0), "heads must be [T]");
    const size_t N = batch.N;
    std::vector<double> scores(N);
    for (int64_t i = 0; i < batch.N; ++i) {
        for (int64_t t = batch.offsets[i]; t < batch.offsets[i + 1]; ++t)
            require(0 <= heads(t) && heads(t) <= batch.length(i) &&
                        heads(t) != t - batch.offsets[i] + 1,
                    "heads must be 0 to T, and no word its own");
        scores[i] = tree_score(batch, i, heads.data() + batch.offsets[i]);
    }
    return nb::cast<Result<double, 1>>(to_numpy(std::move(scores), {N}));
}

}  // namespace

void bind_trees(nb::module_& m) {
    const auto batch_then = [&](const char* name, auto function, const char* doc,
                                const auto&... more) {
        m.def(name, function, nb::arg("arcs"), nb::arg("offsets"), nb::arg("siblings").none(),
              nb::arg("projective"), nb::arg("single_root"), nb::arg("threads"), more..., doc);
    };
    batch_then("tree_best", best, "Heads [T] and scores [N] of the best trees.");
    batch_then("tree_sums", sums, "log_z [N]; fills the probabilities of arcs and siblings.",
               nb::arg("marginals").none() = nb::none(),
               nb::arg("sibling_marginals").none() = nb::none());
    batch_then("tree_sample", sample, "Heads [draws, T] of trees at random, and log_z [N].",
               nb::arg("draws"), nb::arg("seeds"));
    batch_then("tree_nbest", nbest, "Counts [N], heads and scores of the n best trees.",
               nb::arg("n"));
    batch_then("tree_score", score, "Scores [N] of given trees.", nb::arg("heads"));
}

}  // namespace tagloom
