// A linear model that learns sentence by sentence for as long as it lives. Its weights, and what
// the learner keeps beside them, stay in memory between calls and grow with new attributes, so that
// learning from n sentences and scoring n sentences both cost O(n), whatever the size of the model.
// Only a new label costs O(model), as every row becomes longer.
//
// Attributes are numbered in *sections*, each with its own numbers from 0 on. All rows are full;
// they lie in the order in which attributes were first met:
//
//   weights = [row][row][row] ...    begin[section][a] is where the row of attribute a begins
//
// A node section has rows over Y labels, the edge section rows over Y * Y pairs of labels.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/linear.hpp"
#include "core/online.hpp"

namespace tagloom {

class Resident final : public RowMap {
  public:
    // The last section is that of the edges.
    Resident(const OnlineOptions& options, int64_t n_node_sections, int64_t n_labels, bool float32);
    // A copy that learns separately, with other options of the same rule.
    Resident(const Resident& other, const OnlineOptions& options);
    Resident(const Resident&) = delete;
    Resident& operator=(const Resident&) = delete;

    int64_t tail_at() const override { return int64_t{1} << 32; }  // above any weight of a row
    const uint8_t* free_rows() const override { return free.data(); }
    const uint8_t* free_tail() const override { return tail_free.data(); }
    void each_row(const UseRow& use) const override;

    int64_t n_labels() const { return Y; }
    int64_t n_sections() const { return std::ssize(begins); }
    int64_t n_attributes(int64_t section) const { return std::ssize(begins[section]); }
    int64_t width(int64_t section) const { return section + 1 == n_sections() ? Y * Y : Y; }

    // More labels: old label y is now place[y]. The attributes of section s are now numbered
    // otherwise where ids[s] is not empty: new number a was ids[s][a], or is new if that is -1.
    void set_labels(int64_t n_labels, std::span<const int64_t> place,
                    std::span<const std::vector<int64_t>> ids);
    // The weights of the tail: from[j] is the old number of weight j, or -1. Those that were free
    // stay free.
    void set_tail(std::span<const int64_t> from, std::span<const uint8_t> is_free);
    // Adds attributes up to the number of each section. With `all`, their weights are free for
    // every label, otherwise for those that they occur with.
    void grow(std::span<const int64_t> sizes, bool all);
    // Adds weights, as those of a trained model; the attributes must exist. `steps` counts the
    // sentences that it has learnt from.
    void start_from(int64_t section, std::span<const int32_t> attributes,
                    std::span<const int32_t> columns, std::span<const double> weights);
    void start_tail_from(std::span<const double> weights, int64_t steps);

    // One pass over the sentences in the given order. Node attributes of section s are numbered
    // from the sum of the sizes of the sections before it. With `frees_seen`, the transitions,
    // starts and stops that occur are free from now on.
    Epoch learn(const Examples& examples, const int64_t* permutation, std::vector<double> cost,
                bool frees_seen);

    // out[t, g * width + c] += value * weight(a * group + g, c) over the attributes a of token t.
    // Weights of absolute value below `least` count as zero. out is [T, group * width].
    void score(int64_t section, int64_t group, const Attributes& attributes, int64_t T, float least,
               int64_t threads, float* out) const;
    // The weights of a section [attributes, width], and of the tail; averaged if the options say
    // so.
    void read(int64_t section, float* out) const;
    std::vector<double> tail() const;

    int64_t n_rows() const { return n_weights; }
    int64_t n_sentences() const { return n_seen; }

  private:
    class Part;

    int64_t Y;
    bool float32;
    OnlineOptions options;
    std::vector<std::vector<uint32_t>> begins;  // [sections][attributes]
    int64_t n_weights = 0, n_tail = 0;
    int64_t n_seen = 0;              // sentences learnt from so far
    std::vector<uint8_t> free;       // [n_weights]
    std::vector<uint8_t> tail_free;  // [n_tail]
    std::unique_ptr<Online> online;
};

}  // namespace tagloom
