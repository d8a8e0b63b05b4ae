#include "core/extract.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "core/threads.hpp"

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
    std::vector<uint32_t> place;  // [atoms] where in `of`
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
            Factor& factor = one.factors[i];
            if (factor.atom >= atoms.size()) {
                fail(where + "atom " + std::to_string(factor.atom) + " does not exist; there are " +
                     std::to_string(atoms.size()));
            }
            if (factor.offset < -kFarthest || factor.offset > kFarthest) {
                fail(where + "offset " + std::to_string(factor.offset) + " is beyond " +
                     std::to_string(kFarthest));
            }
            pad = std::max(pad, std::abs(factor.offset));
            const int32_t column = atoms[factor.atom].column;
            factor.column = static_cast<uint32_t>(column);
            factor.place = place[factor.atom];
            factor.then = hash_part(one.literals[i + 1]);
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

void featurise(const Program& program, std::size_t c, const Word* const* words, std::size_t n,
               uint64_t* hashes) {
    constexpr std::size_t kSome = 64;  // words whose text stays in the L1 cache
    std::string scratch;
    for (std::size_t first = 0; first < n; first += kSome) {
        const std::size_t end = std::min(first + kSome, n);
        uint64_t* to = hashes;
        for (const uint32_t a : program.of[c]) {
            const Atom& atom = program.atoms[a];
            for (std::size_t i = first; i < end; i++) to[i] = atom.hash(*words[i], scratch);
            to += n;
        }
    }
}

void featurise(const Program& program, Batch& batch) {
    for (std::size_t c = 0; c < program.columns; c++) {
        Column& column = batch.columns[c];
        std::vector<const Word*> words;
        for (const Word& word : column.words.all) words.push_back(&word);
        column.hashes.resize(words.size() * program.of[c].size());
        featurise(program, c, words.data(), words.size(), column.hashes.data());
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

// In place of an id: attribute not in the index; template yields none; not looked up yet.
constexpr int32_t kAbsent = -1, kNothing = -2, kUnknown = -3;
constexpr int64_t kBlock = 32;            // tokens whose table probes are prefetched together
constexpr int64_t kWorthThread = 10'000;  // tokens
constexpr int64_t kMostParts = 4;         // beyond, joining them takes as long
constexpr int64_t kPiece = 1 << 16;       // ids per piece of work

// Sentences that one thread encodes. Their ids have a separate range in Encoded, with room for
// every template at every token.
struct Part {
    int64_t first, last;  // sentences
    int64_t begin, end;   // ids
};

// Cuts a batch into parts with about the same number of tokens.
std::vector<Part> cut(const Program& program, const Batch& batch, int64_t threads) {
    const int64_t T = batch.offsets.back();
    const int64_t n = std::clamp<int64_t>(std::min(threads, T / kWorthThread), 1, kMostParts);
    std::vector<Part> parts;
    for (int64_t p = 0, first = 0; p < n; p++) {
        const auto next =
            std::lower_bound(batch.offsets.begin() + first, batch.offsets.end(), T * (p + 1) / n);
        const int64_t begin = batch.offsets[first] * static_cast<int64_t>(program.templates.size());
        parts.push_back({first, next - batch.offsets.begin(), begin, begin});
        first = parts.back().last;
    }
    parts.back().last = static_cast<int64_t>(batch.offsets.size()) - 1;  // and empty sentences
    return parts;
}

// The attribute of a local template at a word, and its number of occurrences. Counting here, next
// to the id, avoids a cache miss in the counts of the index for each occurrence.
struct CachedId {
    int32_t id = kUnknown;
    int32_t uses = 0;
};

// Encodes a part in two passes over each block: the first computes fingerprints and prefetches
// their slots, the second looks them up, in the order of tokens and templates.
//   prefetch(fingerprint), resolve(fingerprint, template, position) -> id, count(id, uses)
template <class Prefetch, class Resolve, class Count>
void encode_part(const Program& program, const Batch& batch, Part& part, Encoded& out,
                 const Prefetch& prefetch, const Resolve& resolve, const Count& count) {
    const std::size_t n_templates = program.templates.size();

    // The cached ids of a local template: that of word w is cached[w * stride].
    struct Local {
        const int32_t* tokens;
        int32_t offset;
        CachedId* cached;
        std::size_t stride;
    };
    std::vector<std::vector<CachedId>> cached(program.columns);  // [words, local templates]
    std::vector<Local> locals(n_templates);
    for (std::size_t c = 0; c < program.columns; c++) {
        const std::size_t stride = program.local[c].size();
        cached[c].resize(batch.columns[c].words.all.size() * stride);
        for (std::size_t slot = 0; slot < stride; slot++) {
            const uint32_t k = program.local[c][slot];
            locals[k] = {batch.columns[c].tokens.data(), program.templates[k].offset,
                         cached[c].data() + slot, stride};
        }
    }
    struct Pending {
        uint64_t fingerprint;
        int64_t at;  // in ids
        int64_t position;
        CachedId* cached;  // where to store the id, or null
        const Template* one;
    };
    std::vector<Pending> pending(kBlock * n_templates);
    std::array<int64_t, kBlock> ends;  // of the ids of each token of the block
    std::size_t n_pending = 0;
    int64_t begin = part.begin, end = part.begin;  // of the ids of the block
    int64_t first = batch.offsets[part.first];     // token of the block
    int64_t n_tokens = 0;                          // of the block

    const auto finish_block = [&] {
        bool all_found = true;
        for (std::size_t p = 0; p < n_pending; p++) {
            const Pending& one = pending[p];
            const int32_t id = resolve(one.fingerprint, *one.one, one.position);
            out.ids[one.at] = id;
            all_found &= id != kAbsent;
            if (one.cached) one.cached->id = id;
        }
        n_pending = 0;
        int64_t to = begin, from = begin;
        for (int64_t i = 0; i < n_tokens; i++) {
            out.indptr[first + i] = to;
            if (all_found) {
                to = from = ends[i];
                continue;
            }
            for (; from < ends[i]; from++) {  // close the gaps
                if (out.ids[from] == kAbsent) continue;
                out.ids[to] = out.ids[from];
                if (out.values) out.values[to] = out.values[from];
                to++;
            }
        }
        first += n_tokens;
        n_tokens = 0;
        begin = end = to;
    };

    for (int64_t n = part.first; n < part.last; n++) {
        const int64_t T_n = batch.offsets[n + 1] - batch.offsets[n];
        const int64_t start = padded(program, batch, n);
        for (int64_t t = 0; t < T_n; t++) {
            const int64_t position = start + t;
            for (std::size_t k = 0; k < n_templates; k++) {
                const Template& one = program.templates[k];
                int32_t id = kUnknown;
                CachedId* keep = nullptr;
                if (one.local) {
                    const Local& local = locals[k];
                    const auto word =
                        static_cast<std::size_t>(local.tokens[position + local.offset]);
                    keep = local.cached + word * local.stride;
                    id = keep->id;
                    if (id == kNothing || id == kAbsent) continue;
                    keep->uses++;
                }
                if (id == kUnknown) {
                    const uint64_t h = fingerprint_at(batch, one, position);
                    if (h == kNone) {
                        if (keep) keep->id = kNothing;
                        continue;
                    }
                    prefetch(h);
                    if (keep) keep->uses--;  // resolve() counts this one
                    pending[n_pending++] = {h, end, position, keep, &one};
                }
                if (out.values) {
                    out.values[end] =
                        one.numeric < 0
                            ? 1.0f
                            : static_cast<float>(batch.numeric[one.numeric][batch.offsets[n] + t]);
                }
                out.ids[end++] = id;
            }
            ends[n_tokens++] = end;
            if (n_tokens == kBlock) finish_block();
        }
    }
    finish_block();
    part.end = end;
    for (const std::vector<CachedId>& column : cached) {
        for (const CachedId& one : column) {
            if (one.uses > 0 && one.id >= 0) count(one.id, one.uses);
        }
    }
}

Encoded make_room(const Program& program, const Batch& batch) {
    const auto T = static_cast<std::size_t>(batch.offsets.back());
    const std::size_t most = T * program.templates.size();
    Encoded out;  // untouched pages are never allocated, so reserving `most` costs little
    out.indptr = std::make_unique_for_overwrite<int64_t[]>(T + 1);
    out.ids = std::make_unique_for_overwrite<int32_t[]>(most);
    if (program.numeric > 0) out.values = std::make_unique_for_overwrite<float[]>(most);
    return out;
}

// Transitions the ids of a part to `to`, the end of the part before it.
void join(const Batch& batch, const Part& part, int64_t to, Encoded& out) {
    const int64_t by = part.begin - to;
    if (by == 0) return;
    for (int64_t t = batch.offsets[part.first]; t < batch.offsets[part.last]; t++)
        out.indptr[t] -= by;
    const auto move = [&](auto* of) { std::copy(of + part.begin, of + part.end, of + to); };
    move(out.ids.get());
    if (out.values) move(out.values.get());
}

}  // namespace

Encoded encode(const Program& program, const Batch& batch, const Table& table, int64_t threads) {
    Encoded out = make_room(program, batch);
    std::vector<Part> parts = cut(program, batch, threads);
    parallel_for(static_cast<int64_t>(parts.size()), threads, [&](int64_t p, int64_t) {
        encode_part(
            program, batch, parts[p], out, [&](uint64_t h) { table.prefetch(h); },
            [&](uint64_t h, const Template&, int64_t) { return table.find(h); },
            [](int32_t, int32_t) {});
    });
    int64_t end = 0;
    for (const Part& part : parts) {
        join(batch, part, end, out);
        end += part.end - part.begin;
    }
    out.indptr[batch.offsets.back()] = end;
    return out;
}

namespace {

// The first part grows the index itself, every other part a separate index. These are then joined
// in order, so that attributes get the same numbers as with one thread. Names are added last, so
// that an attribute of several parts is named once.
Encoded encode_growing(const Program& program, const Batch& batch, Index& index, int64_t threads) {
    struct First {  // the first occurrence of an attribute
        const Template* one;
        int64_t position;
    };
    Encoded out = make_room(program, batch);
    std::vector<Part> parts = cut(program, batch, threads);
    std::vector<Index> others(parts.size() - 1);
    std::vector<std::vector<First>> firsts(parts.size());  // [part][attributes that are new there]
    const auto n_old = static_cast<int64_t>(index.size());
    parallel_for(std::ssize(parts), threads, [&](int64_t p, int64_t) {
        Index& own = p == 0 ? index : others[p - 1];
        encode_part(
            program, batch, parts[p], out, [&](uint64_t h) { own.table().prefetch(h); },
            [&](uint64_t h, const Template& one, int64_t position) {
                const std::size_t before = own.size();
                const int32_t id = own.add_nameless(h);
                if (own.size() > before) firsts[p].push_back({&one, position});
                return id;
            },
            [&](int32_t id, int32_t uses) { own.count(id, uses); });
    });
    int64_t end = parts[0].end;
    for (std::size_t p = 1; p < parts.size(); p++) {
        const std::vector<int32_t> numbers = index.join(others[p - 1]);
        for (std::size_t id = 0; id < numbers.size(); id++) {
            if (numbers[id] == n_old + std::ssize(firsts[0])) firsts[0].push_back(firsts[p][id]);
        }
        const int64_t n = parts[p].end - parts[p].begin;
        int32_t* ids = out.ids.get() + parts[p].begin;
        parallel_for((n + kPiece - 1) / kPiece, threads, [&](int64_t piece, int64_t) {
            for (int64_t j = piece * kPiece; j < std::min((piece + 1) * kPiece, n); j++)
                ids[j] = numbers[ids[j]];
        });
        join(batch, parts[p], end, out);
        end += n;
    }
    out.indptr[batch.offsets.back()] = end;
    index.add_names(parts.size() > 1 ? threads : 1, [&](int64_t id, std::string& name) {
        const First& first = firsts[0][id - n_old];
        append_name(program, batch, *first.one, first.position, name);
    });
    return out;
}

}  // namespace

Encoded encode(const Program& program, const Batch& batch, Index& index, int64_t threads) {
    const std::size_t n_old = index.size();
    try {
        return encode_growing(program, batch, index, threads);
    } catch (...) {
        index.truncate(n_old);
        throw;
    }
}

}  // namespace tagloom
