#include "bind/vocabulary.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

#include "bind/bind.hpp"
#include "bind/index.hpp"

namespace nb = nanobind;

namespace tagloom {
namespace {

// An array that owns the numbers of a vector.
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

// Asks Python how to write a word otherwise.
Rewrite by_python(const nb::callable& write, Arena& arena) {
    return [&write, &arena](const Word& word) {
        return copy_word(write(nb::str(word.text.data(), word.text.size())), arena);
    };
}

}  // namespace

Vocabulary::Vocabulary(const PyProgram& compiled, nb::handle sentences)
    : compiled_(compiled), read_(compiled, one_column(sentences), nb::list()) {
    const Program& program = compiled.program;
    if (program.columns > 1 || program.pad > 0 || program.templates.empty()) {
        throw std::invalid_argument("a vocabulary has templates that look at one token each");
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

nb::tuple Vocabulary::find_alike(In<double, 2> counts, In<bool, 1> chosen, nb::callable lower,
                                 nb::callable capitalise) {
    const LabelCounts labels = check(counts, chosen, chosen);
    Words& words = read_.batch.columns[0].words;
    Alike found = tagloom::find_alike(words, labels, chosen.data(), by_python(lower, words.arena),
                                      by_python(capitalise, words.arena));
    const std::size_t groups = found.sums.size() / std::max<std::size_t>(labels.Y, 1);
    return nb::make_tuple(give(std::move(found.group_of)),
                          give(std::move(found.sums), {groups, labels.Y}),
                          give(std::move(found.variant_of)));
}

nb::tuple Vocabulary::make_chains(In<double, 2> counts, In<bool, 1> is_rare, In<bool, 1> is_known) {
    const LabelCounts labels = check(counts, is_rare, is_known);
    Chains chains;
    {
        nb::gil_scoped_release release;
        // From here on the batch is one sentence that has every word once.
        Column& column = read_.batch.columns[0];
        column.tokens.resize(column.words.all.size());
        std::iota(column.tokens.begin(), column.tokens.end(), 0);
        featurise(compiled_.program, read_.batch);
        chains = tagloom::make_chains(compiled_.program, read_.batch, labels, is_rare.data(),
                                      is_known.data());
    }
    const auto S = static_cast<std::size_t>(chains.ends.empty() ? 0 : chains.ends.back());
    return nb::make_tuple(PyIndex(std::move(chains.index)), give(std::move(chains.parent)),
                          give(std::move(chains.ends)),
                          give(std::move(chains.counts), {S, labels.Y}),
                          give(std::move(chains.words)), give(std::move(chains.spelling)));
}

LabelCounts Vocabulary::check(const In<double, 2>& counts, const In<bool, 1>& one,
                              const In<bool, 1>& other) const {
    if (counts.shape(0) != V_ || one.shape(0) != V_ || other.shape(0) != V_) {
        throw std::invalid_argument("expected counts and flags for each word of the vocabulary");
    }
    return {counts.data(), V_, counts.shape(1)};
}

void bind_vocabulary(nb::module_& m) {
    using namespace nb::literals;
    nb::class_<Vocabulary>(m, "Vocabulary", "The V distinct words of a corpus, as they come.")
        .def("read", &Vocabulary::read,
             nb::sig("def read(self) -> tuple[NDArray[numpy.int32], NDArray[numpy.int64], "
                     "NDArray[numpy.uint64]]"),
             "Once: (which word each token is [T], offsets [N + 1], hashes of words [V]).")
        .def("find_alike", &Vocabulary::find_alike, "counts"_a, "chosen"_a, "lower"_a,
             "capitalise"_a,
             nb::sig("def find_alike(self, counts: NDArray[numpy.float64], chosen: "
                     "NDArray[numpy.bool_], lower: Callable[[str], str], capitalise: "
                     "Callable[[str], str]) -> tuple[NDArray[numpy.int32], "
                     "NDArray[numpy.float64], NDArray[numpy.int32]]"),
             "Put words together that differ in capitals only, and add M variants of them: (group "
             "of each word [V], counts [groups, Y], group of each variant [M]).")
        .def("make_chains", &Vocabulary::make_chains, "counts"_a, "is_rare"_a, "is_known"_a,
             nb::sig("def make_chains(self, counts: NDArray[numpy.float64], is_rare: "
                     "NDArray[numpy.bool_], is_known: NDArray[numpy.bool_]) -> tuple[Index, "
                     "NDArray[numpy.int32], NDArray[numpy.int64], NDArray[numpy.float64], "
                     "NDArray[numpy.int32], NDArray[numpy.int32]]"),
             "Number the attributes of words: (index, parent [A], ends of the levels of "
             "spellings, their counts [S, Y], attributes that are words [V + M], the spelling of "
             "each word [V + M]).");
}

}  // namespace tagloom
