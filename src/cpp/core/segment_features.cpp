#include "core/segment_features.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "core/threads.hpp"

namespace tagloom {
namespace {

constexpr int64_t kChunk = 1 << 14;  // segments per piece of work
constexpr uint64_t kBar = kGolden;   // between the values of two factors

// The fingerprints of the program's templates at every token [templates, T].
std::vector<uint64_t> token_values(const Program& program, const Batch& batch) {
    const int64_t T = batch.offsets.back();
    std::vector<uint64_t> values(program.templates.size() * T);
    for (size_t k = 0; k < program.templates.size(); ++k)
        for (size_t n = 0; n + 1 < batch.offsets.size(); ++n) {
            const int64_t lo = batch.offsets[n], at = padded(program, batch, n);
            for (int64_t t = lo; t < batch.offsets[n + 1]; ++t)
                values[k * T + t] = fingerprint_at(batch, program.templates[k], at + t - lo);
        }
    return values;
}

class Reader {
  public:
    Reader(const Program& program, const Batch& batch,
           const std::vector<SegmentTemplate>& templates, const SegmentList& segments)
        : program_(program),
          batch_(batch),
          templates_(templates),
          list_(segments),
          T_(batch.offsets.back()),
          values_(token_values(program, batch)) {
        for (const SegmentTemplate& one : templates) {
            starts_.push_back(mix(kSeed, hash_part(one.name)));
            for (const SegmentFactor& factor : one.factors) {
                const bool is_each = factor.anchor == Anchor::each;
                if ((factor.anchor != Anchor::length && factor.of >= program.templates.size()) ||
                    (is_each && one.factors.size() > 1))
                    throw std::invalid_argument("a segment template reads a missing template");
            }
        }
        for (int64_t i = 0; i < segments.n; ++i) {
            const int64_t lo = segments.begin[i], hi = lo + segments.length[i];
            if (lo < 0 || segments.length[i] < 1 || hi > T_)
                throw std::invalid_argument("a segment must lie in the sentences");
            longest_ = std::max<int64_t>(longest_, segments.length[i]);
        }
        for (int64_t l = 0; l <= longest_; ++l) lengths_.push_back(hash64(std::to_string(l)));
    }

    // Calls use(fingerprint, template or -1, token or number of the given text) for segment i.
    template <class Use>
    void each(int64_t i, const Use& use) const {
        const int64_t lo = list_.begin[i], hi = lo + list_.length[i];
        for (size_t k = 0; k < templates_.size(); ++k) {
            const SegmentTemplate& one = templates_[k];
            if (one.factors[0].anchor == Anchor::each) {
                for (int64_t t = lo + 1; t + 1 < hi; ++t) {
                    const uint64_t value = values_[one.factors[0].of * T_ + t];
                    if (value != kNone) use(Table::key(mix(starts_[k], value)), int64_t(k), t);
                }
                continue;
            }
            uint64_t h = starts_[k];
            bool has_value = true;
            for (const SegmentFactor& factor : one.factors) {
                const uint64_t value = value_of(factor, lo, hi);
                has_value = has_value && value != kNone;
                h = mix(mix(h, value), kBar);
            }
            if (has_value) use(Table::key(h), int64_t(k), lo);
        }
        const int64_t* end = list_.given_at + std::ssize(list_.given);
        for (const int64_t* at = std::lower_bound(list_.given_at, end, i); at < end && *at == i;
             ++at)
            use(Table::key(mix(kSeed, hash_part(list_.given[at - list_.given_at]))), int64_t{-1},
                at - list_.given_at);
    }

    void append_name(int64_t i, int64_t k, int64_t where, std::string& out) const {
        if (k < 0) {
            out += list_.given[where];
            return;
        }
        const int64_t lo = list_.begin[i], hi = lo + list_.length[i];
        const SegmentTemplate& one = templates_[k];
        out += one.name;
        bool is_next = false;
        for (const SegmentFactor& factor : one.factors) {
            if (std::exchange(is_next, true)) out += '|';
            switch (factor.anchor) {
                case Anchor::length:
                    out += std::to_string(hi - lo);
                    break;
                case Anchor::phrase:
                    for (int64_t t = lo; t < hi; ++t) {
                        if (t > lo) out += '_';
                        append_value(factor, t, out);
                    }
                    break;
                default:
                    append_value(factor, factor.anchor == Anchor::last ? hi - 1 : where, out);
            }
        }
    }

  private:
    uint64_t value_of(const SegmentFactor& factor, int64_t lo, int64_t hi) const {
        const uint64_t* of = values_.data() + factor.of * T_;
        switch (factor.anchor) {
            case Anchor::first:
                return of[lo];
            case Anchor::last:
                return of[hi - 1];
            case Anchor::length:
                return lengths_[hi - lo];
            default: {
                uint64_t h = kSeed;
                for (int64_t t = lo; t < hi; ++t) {
                    if (of[t] == kNone) return kNone;
                    h = mix(h, of[t]);
                }
                return h > kEmpty ? h : h + 2;
            }
        }
    }
    // The value at a token without the literal text of the template before it.
    void append_value(const SegmentFactor& factor, int64_t t, std::string& out) const {
        const auto next = std::upper_bound(batch_.offsets.begin(), batch_.offsets.end(), t);
        const int64_t n = next - batch_.offsets.begin() - 1;
        const Template& one = program_.templates[factor.of];
        std::string name;
        tagloom::append_name(program_, batch_, one,
                             padded(program_, batch_, n) + t - batch_.offsets[n], name);
        out += name.substr(one.literals[0].size());
    }

    const Program& program_;
    const Batch& batch_;
    const std::vector<SegmentTemplate>& templates_;
    const SegmentList& list_;
    const int64_t T_;
    const std::vector<uint64_t> values_;  // [templates, T]
    std::vector<uint64_t> starts_, lengths_;
    int64_t longest_ = 0;
};

}  // namespace

EncodedSegments encode_segments(const Program& program, const Batch& batch,
                                const std::vector<SegmentTemplate>& templates,
                                const SegmentList& segments, const Table& table, int64_t threads) {
    const Reader reader(program, batch, templates, segments);
    const int64_t pieces = (segments.n + kChunk - 1) / kChunk;
    std::vector<std::vector<int32_t>> ids(pieces);
    EncodedSegments out;
    out.indptr.assign(segments.n + 1, 0);
    parallel_for(pieces, threads, [&](int64_t p, int64_t) {
        for (int64_t i = p * kChunk; i < std::min(segments.n, (p + 1) * kChunk); ++i) {
            reader.each(i, [&](uint64_t h, int64_t, int64_t) {
                const int32_t id = table.find(h);
                if (id >= 0) ids[p].push_back(id);
            });
            out.indptr[i + 1] = std::ssize(ids[p]);
        }
    });
    int64_t before = 0;
    for (int64_t p = 0; p < pieces; ++p) {
        for (int64_t i = p * kChunk; i < std::min(segments.n, (p + 1) * kChunk); ++i)
            out.indptr[i + 1] += before;
        out.ids.insert(out.ids.end(), ids[p].begin(), ids[p].end());
        before = std::ssize(out.ids);
    }
    return out;
}

EncodedSegments encode_segments(const Program& program, const Batch& batch,
                                const std::vector<SegmentTemplate>& templates,
                                const SegmentList& segments, Index& index) {
    const Reader reader(program, batch, templates, segments);
    EncodedSegments out;
    out.indptr.push_back(0);
    for (int64_t i = 0; i < segments.n; ++i) {
        reader.each(i, [&](uint64_t h, int64_t k, int64_t where) {
            out.ids.push_back(
                index.add(h, [&](std::string& name) { reader.append_name(i, k, where, name); }));
        });
        out.indptr.push_back(std::ssize(out.ids));
    }
    return out;
}

}  // namespace tagloom
