#include "bind/vocabulary.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "bind/bind.hpp"
#include "bind/casters.hpp"
#include "bind/gil.hpp"
#include "bind/index.hpp"
#include "core/counts.hpp"

namespace nb = nanobind;

namespace tagloom {
namespace {

// A NumPy array that takes over the vector.
template <class T>
nb::ndarray<nb::numpy, T> give(std::vector<T> numbers, std::initializer_list<std::size_t> shape) {
    auto* own = new std::vector<T>(std::move(numbers));
    const nb::capsule owner(own, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::ndarray<nb::numpy, T>(own->data(), shape, owner);
}
template <class T>
nb::ndarray<nb::numpy, T> give(std::vector<T> numbers) {
    const std::size_t n = numbers.size();
    return give(std::move(numbers), {n});
}

nb::list one_column(nb::handle sentences) {
    nb::list columns;
    columns.append(sentences);
    return columns;
}

// Rewrites a word by a Python function.
Rewrite by_python(const nb::callable& write, Arena& arena) {
    return [&write, &arena](const Word& word) {
        return copy_word(write(nb::str(word.text.data(), word.text.size())), arena);
    };
}

using Ids = Vocabulary::In<int32_t, 1>;
using Offsets = Vocabulary::In<int64_t, 1>;
using Weight = std::optional<Vocabulary::In<double, 1>>;

bool are_below(const Ids& ids, int64_t n) {
    return std::all_of(ids.data(), ids.data() + ids.size(),
                       [n](int32_t id) { return id >= 0 && id < n; });
}

LabelledTokens check_tokens(const Ids& gold, const Offsets& offsets, const Weight& weight,
                            int64_t Y) {
    const int64_t N = static_cast<int64_t>(offsets.size()) - 1;
    const bool fits = N >= 0 && offsets(0) == 0 &&
                      offsets(N) == static_cast<int64_t>(gold.size()) &&
                      std::is_sorted(offsets.data(), offsets.data() + N + 1) &&
                      are_below(gold, Y) && (!weight || int64_t(weight->size()) == N);
    if (!fits)
        throw std::invalid_argument(
            "labels, offsets and weight must have matching shapes, and labels be 0 to Y - 1");
    return {N, Y, offsets.data(), gold.data(), weight ? weight->data() : nullptr};
}

nb::ndarray<nb::numpy, double> count_words_py(Ids words, Ids gold, Offsets offsets, Weight weight,
                                              std::size_t V, std::size_t Y) {
    const LabelledTokens tokens = check_tokens(gold, offsets, weight, static_cast<int64_t>(Y));
    if (words.size() != gold.size() || !are_below(words, static_cast<int64_t>(V))) {
        throw std::invalid_argument("words must have one number below V for each label");
    }
    if (Y > 0 && V > (std::size_t{1} << 40) / Y) throw std::invalid_argument("too many words");
    std::vector<double> counts(V * Y);
    count_words(tokens, words.data(), counts.data());
    return give(std::move(counts), {V, Y});
}

nb::ndarray<nb::numpy, double> add_rows_py(Ids ids, Vocabulary::In<double, 2> values, Weight weight,
                                           std::size_t n) {
    const std::size_t T = ids.size(), Y = values.shape(1);
    if (values.shape(0) != T || (weight && weight->size() != T) ||
        !are_below(ids, static_cast<int64_t>(n))) {
        throw std::invalid_argument(
            "ids, values and weight must have matching shapes, and ids be 0 to n - 1");
    }
    if (Y > 0 && n > (std::size_t{1} << 40) / Y) throw std::invalid_argument("too many rows");
    std::vector<double> sums(n * Y);
    {
        const WithoutGil unlocked;
        add_rows({static_cast<int64_t>(T), static_cast<int64_t>(Y), ids.data(), values.data(),
                  weight ? weight->data() : nullptr},
                 sums.data());
    }
    return give(std::move(sums), {n, Y});
}

nb::ndarray<nb::numpy, double> count_ngrams_py(Ids gold, Offsets offsets, Weight weight,
                                               std::size_t Y, int64_t k) {
    const LabelledTokens tokens = check_tokens(gold, offsets, weight, static_cast<int64_t>(Y));
    constexpr std::size_t most = std::size_t{1} << 40;  // more than memory holds
    std::size_t cells = 1;
    for (int64_t j = 0; j <= k; j++) {
        if (Y >= most || cells > most / (Y + 1)) throw std::invalid_argument("too many n-grams");
        cells *= Y + 1;
    }
    if (k < 0) throw std::invalid_argument("k, the length of histories, must not be negative");
    std::vector<double> counts(cells);
    count_ngrams(tokens, k, counts.data());
    return give(std::move(counts));
}

}  // namespace

Vocabulary::Vocabulary(const PyProgram& compiled, nb::handle sentences)
    : compiled_(compiled), read_(compiled, one_column(sentences), nb::list()) {
    const Program& program = compiled.program;
    if (program.columns > 1 || program.pad > 0 || program.templates.empty()) {
        throw std::invalid_argument("a vocabulary needs templates that read one token each");
    }
    V_ = read_.batch.columns[0].words.all.size();
}

nb::tuple Vocabulary::read() {
    Column& column = read_.batch.columns[0];
    std::vector<uint64_t> hashes(V_);
    for (std::size_t w = 0; w < V_; w++) hashes[w] = column.words.all[w].hash;
    return nb::make_tuple(give(std::move(column.tokens)), give(std::move(read_.batch.offsets)),
                          give(std::move(hashes)));
}

nb::tuple Vocabulary::make_spelling_tree(In<double, 2> counts, In<bool, 1> is_rare,
                                         In<bool, 1> is_known, In<bool, 1> folds,
                                         nb::callable lower, nb::callable capitalise) const {
    const LabelCounts labels = check(counts, is_rare, is_known, folds);
    Batch batch;  // one sentence: every word once, then the variants
    Column& column = batch.columns.emplace_back(0);
    column.words = read_.batch.columns[0].words.fork();
    Words& words = column.words;
    CaseGroups cases = group_by_case(words, labels, folds.data(), by_python(lower, words.arena),
                                     by_python(capitalise, words.arena));
    SpellingTree tree;
    {
        const WithoutGil unlocked;
        column.tokens.resize(words.all.size());
        std::iota(column.tokens.begin(), column.tokens.end(), 0);
        featurise(compiled_.program, batch);
        tree = tagloom::make_spelling_tree(compiled_.program, batch, labels, is_rare.data(),
                                           is_known.data());
    }
    const auto S = static_cast<std::size_t>(tree.ends.empty() ? 0 : tree.ends.back());
    const std::size_t groups = cases.sums.size() / std::max<std::size_t>(labels.Y, 1);
    return nb::make_tuple(
        nb::make_tuple(give(std::move(cases.group_of)),
                       give(std::move(cases.sums), {groups, labels.Y}),
                       give(std::move(cases.variant_of))),
        nb::make_tuple(PyIndex(std::move(tree.index)), give(std::move(tree.parent)),
                       give(std::move(tree.ends)), give(std::move(tree.counts), {S, labels.Y}),
                       give(std::move(tree.words)), give(std::move(tree.spelling))));
}

LabelCounts Vocabulary::check(const In<double, 2>& counts, const In<bool, 1>& is_rare,
                              const In<bool, 1>& is_known, const In<bool, 1>& folds) const {
    if (counts.shape(0) != V_ || is_rare.shape(0) != V_ || is_known.shape(0) != V_ ||
        folds.shape(0) != V_) {
        throw std::invalid_argument(
            "counts, is_rare, is_known and folds must have one entry for each of the V words");
    }
    return {counts.data(), V_, counts.shape(1)};
}

void bind_vocabulary(nb::module_& m) {
    using namespace nb::literals;
    nb::class_<Vocabulary>(m, "Vocabulary",
                           "The V distinct words of a corpus, in order of occurrence.")
        .def("read", &Vocabulary::read,
             nb::sig("def read(self) -> tuple[NDArray[numpy.int32], NDArray[numpy.int64], "
                     "NDArray[numpy.uint64]]"),
             "(word number of each token [T], offsets [N + 1], hashes of words [V]); call it once.")
        .def("make_spelling_tree", &Vocabulary::make_spelling_tree, "counts"_a, "is_rare"_a,
             "is_known"_a, "folds"_a, "lower"_a, "capitalise"_a,
             nb::sig("def make_spelling_tree(self, counts: NDArray[numpy.float64], is_rare: "
                     "NDArray[numpy.bool_], is_known: NDArray[numpy.bool_], folds: "
                     "NDArray[numpy.bool_], lower: Callable[[str], str], capitalise: "
                     "Callable[[str], str]) -> tuple[tuple[NDArray[numpy.int32], "
                     "NDArray[numpy.float64], NDArray[numpy.int32]], tuple[Index, "
                     "NDArray[numpy.int32], NDArray[numpy.int64], NDArray[numpy.float64], "
                     "NDArray[numpy.int32], NDArray[numpy.int32]]]"),
             "Group words with `folds` that differ only in case, and add M case variants of them: "
             "(group of each word [V], counts [groups, Y], group of each variant [M]). Then number "
             "the attributes of words: (index, parent [A], where each level of spellings ends, "
             "counts of spellings [S, Y], attribute of each word [V + M], longest spelling of each "
             "word [V + M]).");
    m.def("count_words", &count_words_py, "words"_a, "gold"_a, "offsets"_a, "weight"_a.none(),
          "V"_a, "Y"_a, "Count the labels of each word [V, Y]; weight [N] is of sentences.");
    m.def("add_rows", &add_rows_py, "ids"_a, "values"_a, "weight"_a.none(), "n"_a,
          "Sum the rows of values [T, Y] by their id, each times its weight [T]: [n, Y].");
    m.def("count_ngrams", &count_ngrams_py, "gold"_a, "offsets"_a, "weight"_a.none(), "Y"_a, "k"_a,
          "Count how often a label, or the end, follows k labels: [(Y + 1)^(k + 1)], flat.");
}

}  // namespace tagloom
