#include "core/extract.hpp"

#include <algorithm>
#include <stdexcept>

namespace tagloom {

void Program::prepare() {
    const auto fail = [](const std::string& what) { throw std::invalid_argument(what); };
    for (const Atom& atom : atoms) {
        if (atom.column < 0 || atom.column > kFarthest) {
            fail("atom: column " + std::to_string(atom.column) + " is not between 0 and " +
                 std::to_string(kFarthest));
        }
        columns = std::max(columns, static_cast<std::size_t>(atom.column) + 1);
    }
    of.assign(columns, {});
    local.assign(columns, {});
    for (uint32_t a = 0; a < atoms.size(); a++) {
        std::vector<uint32_t>& mine = of[static_cast<std::size_t>(atoms[a].column)];
        place.push_back(static_cast<uint32_t>(mine.size()));
        mine.push_back(a);
    }
    for (uint32_t k = 0; k < templates.size(); k++) {
        Template& one = templates[k];
        const std::string where = "template " + std::to_string(k) + ": ";
        if (one.literals.size() != one.factors.size() + 1) {
            fail(where + "expected " + std::to_string(one.factors.size() + 1) +
                 " literals around " + std::to_string(one.factors.size()) + " factors, found " +
                 std::to_string(one.literals.size()));
        }
        if (one.numeric < -1 || one.numeric > kFarthest) {
            fail(where + "numeric column " + std::to_string(one.numeric) +
                 " is not between -1 and " + std::to_string(kFarthest));
        }
        numeric = std::max(numeric, static_cast<std::size_t>(one.numeric + 1));
        one.start = mix(kSeed, hash_part(one.literals[0]));
        for (std::size_t i = 0; i < one.factors.size(); i++) {
            const Factor factor = one.factors[i];
            if (factor.atom >= atoms.size()) {
                fail(where + "atom " + std::to_string(factor.atom) + " of " +
                     std::to_string(atoms.size()));
            }
            if (factor.offset < -kFarthest || factor.offset > kFarthest) {
                fail(where + "offset " + std::to_string(factor.offset) + " is beyond " +
                     std::to_string(kFarthest));
            }
            pad = std::max(pad, std::abs(factor.offset));
            one.then.push_back(hash_part(one.literals[i + 1]));
            const int32_t column = atoms[factor.atom].column;
            if (i == 0) {
                one.column = column;
                one.offset = factor.offset;
            }
            if (column != one.column || factor.offset != one.offset) one.local = false;
        }
        if (!one.local) continue;
        std::vector<uint32_t>& mine = local[static_cast<std::size_t>(one.column)];
        one.slot = static_cast<uint32_t>(mine.size());
        mine.push_back(k);
    }
}

void add_boundaries(const Program& program, Column& column) {
    const auto add = [&](const std::vector<std::string>& strings) {
        for (int32_t d = 0; d < program.pad; d++) {
            Word word;
            word.outside = true;
            if (!strings.empty()) {
                word.text = strings[std::min<std::size_t>(d, strings.size() - 1)];
            }
            column.words.add_apart(word);
        }
    };
    add(program.before);
    add(program.after);
}

void featurise(const Program& program, std::size_t c, Column& column, std::size_t first,
               std::size_t last) {
    const std::vector<uint32_t>& atoms = program.of[c];
    std::string scratch;
    for (std::size_t w = first; w < last; w++) {
        uint64_t* hashes = column.hashes.data() + w * atoms.size();
        for (std::size_t i = 0; i < atoms.size(); i++) {
            hashes[i] = program.atoms[atoms[i]].hash(column.words.all[w], scratch);
        }
    }
}

void featurise(const Program& program, Batch& batch) {
    for (std::size_t c = 0; c < program.columns; c++) {
        Column& column = batch.columns[c];
        column.hashes.resize(column.words.all.size() * program.of[c].size());
        featurise(program, c, column, 0, column.words.all.size());
    }
}

void append_name(const Program& program, const Batch& batch, const Template& one, int64_t position,
                 std::string& out) {
    std::string scratch;
    out.append(one.literals[0]);
    for (std::size_t i = 0; i < one.factors.size(); i++) {
        const Factor factor = one.factors[i];
        const Atom& atom = program.atoms[factor.atom];
        const Column& column = batch.columns[static_cast<std::size_t>(atom.column)];
        const int32_t word = column.tokens[position + factor.offset];
        const auto value = atom.value(column.words.all[static_cast<std::size_t>(word)], scratch);
        out.append(value.value()).append(one.literals[i + 1]);
    }
}

namespace {

constexpr int32_t kAbsent = -1, kNothing = -2, kUnknown = -3;  // instead of an id
constexpr int64_t kBlock = 32;  // tokens whose probes of the table are in flight together

// Encodes in two passes over a block: the first finds out what to look up and asks memory for it,
// the second looks it up, in the order of tokens and templates.
template <class Resolve, class Prefetch, class Count>
Encoded encode_with(const Program& program, const Batch& batch, const Resolve& resolve,
                    const Prefetch& prefetch, const Count& count) {
    const int64_t N = static_cast<int64_t>(batch.offsets.size()) - 1, T = batch.offsets.back();
    const std::size_t most = static_cast<std::size_t>(T) * program.templates.size();
    Encoded out;  // memory that is never touched is never used, so `most` costs little
    out.indptr = std::make_unique_for_overwrite<int64_t[]>(static_cast<std::size_t>(T) + 1);
    out.ids = std::make_unique_for_overwrite<int32_t[]>(most);
    if (program.numeric > 0) out.values = std::make_unique_for_overwrite<float[]>(most);

    // What local templates give, [words, local templates of the column]
    std::vector<std::vector<int32_t>> known(program.columns);
    for (std::size_t c = 0; c < program.columns; c++) {
        known[c].assign(batch.columns[c].words.all.size() * program.local[c].size(), kUnknown);
    }
    struct Pending {
        int64_t at;  // in ids
        int64_t position;
        uint64_t fingerprint;
        int32_t* known;  // where to keep the answer, or null
        const Template* one;
    };
    std::vector<Pending> pending;
    int64_t end = 0;    // of all ids so far
    int64_t begin = 0;  // of the ids of this block
    int64_t done = 0;   // tokens whose ids are final
    std::vector<int64_t> counts;

    const auto finish_block = [&] {
        for (const Pending& one : pending) {
            const int32_t id = resolve(one.fingerprint, *one.one, one.position);
            out.ids[one.at] = id;
            if (one.known) *one.known = id;
        }
        pending.clear();
        int64_t to = begin, from = begin;
        for (const int64_t n : counts) {
            out.indptr[done++] = to;
            for (int64_t i = 0; i < n; i++, from++) {
                const int32_t id = out.ids[from];
                if (id == kAbsent) continue;
                out.ids[to] = id;
                if (out.values) out.values[to] = out.values[from];
                to++;
            }
        }
        counts.clear();
        begin = end = to;
    };

    for (int64_t n = 0; n < N; n++) {
        const int64_t first = batch.offsets[n], T_n = batch.offsets[n + 1] - first;
        int64_t position = padded(program, batch, n);
        for (int64_t t = 0; t < T_n; t++, position++) {
            const int64_t before = end;
            for (const Template& one : program.templates) {
                int32_t id = kUnknown;
                int32_t* keep = nullptr;
                uint64_t h;
                if (one.local) {
                    const auto c = static_cast<std::size_t>(one.column);
                    const Column& column = batch.columns[c];
                    const auto word =
                        static_cast<std::size_t>(column.tokens[position + one.offset]);
                    keep = known[c].data() + word * program.local[c].size() + one.slot;
                    id = *keep;
                    if (id == kNothing) continue;
                    if (id == kUnknown) {
                        h = fingerprint_of(program,
                                           column.hashes.data() + word * program.of[c].size(), one);
                        if (h == kNone) *keep = kNothing;
                    }
                } else {
                    h = fingerprint_at(program, batch, one, position);
                }
                if (id == kUnknown) {
                    if (h == kNone) continue;
                    prefetch(h);
                    pending.push_back({end, position, h, keep, &one});
                } else if (id >= 0) {
                    count(id);
                }
                if (out.values) {
                    out.values[end] =
                        one.numeric < 0 ? 1.0f
                                        : static_cast<float>(batch.numeric[one.numeric][first + t]);
                }
                out.ids[end++] = id;
            }
            counts.push_back(end - before);
            if (static_cast<int64_t>(counts.size()) == kBlock) finish_block();
        }
    }
    finish_block();
    out.indptr[T] = end;
    return out;
}

}  // namespace

Encoded encode(const Program& program, const Batch& batch, const Table& table) {
    return encode_with(
        program, batch, [&](uint64_t h, const Template&, int64_t) { return table.find(h); },
        [&](uint64_t h) { table.prefetch(h); }, [](int32_t) {});
}

Encoded encode(const Program& program, const Batch& batch, Index& index) {
    return encode_with(
        program, batch,
        [&](uint64_t h, const Template& one, int64_t position) {
            return index.add(
                h, [&](std::string& out) { append_name(program, batch, one, position, out); });
        },
        [&](uint64_t h) { index.table().prefetch(h); }, [&](int32_t id) { index.count(id); });
}

}  // namespace tagloom
