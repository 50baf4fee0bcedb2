// SPDX-License-Identifier: Apache-2.0
#include "random_job.hpp"

#include "job/schema.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>

namespace evener::job {

namespace {

using Engine = std::mt19937_64;

std::int64_t draw(Engine& engine, std::int64_t lowest, std::int64_t highest) {
    return lowest +
           static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(highest - lowest + 1));
}

/// Any double within the bounds, of any magnitude.
double draw_real(Engine& engine, RealBounds const& bounds) {
    for (;;) {
        double const unit = static_cast<double>(engine() >> 11) * 0x1p-53;
        double const value =
            std::clamp(bounds.lowest + unit * std::pow(10.0, double(draw(engine, -20, 18))),
                       bounds.lowest, bounds.highest);
        if (within(bounds, value))
            return value;
    }
}

std::string draw_text(Engine& engine, bool may_be_empty) {
    static constexpr std::string_view pieces[] = {"a", "B", "7",  " ", ".", "-",        "\"",
                                                  "'", "#", "\\", "=", "[", "\xc3\xa9", "*"};
    std::string text = may_be_empty ? "" : "x";
    for (std::int64_t i = draw(engine, 0, 12); i > 0; --i)
        text += pieces[draw(engine, 0, std::ssize(pieces) - 1)];
    return text;
}

struct Fill {
    Engine& engine;
    Bounds const& bounds;

    void operator()(bool* value) const { *value = draw(engine, 0, 1) == 1; }
    void operator()(std::int64_t* value) const {
        auto const& whole = std::get<IntegerBounds>(bounds);
        *value = draw(engine, whole.lowest, whole.highest);
    }
    void operator()(std::uint64_t* value) const { *value = engine() >> 1; }
    void operator()(double* value) const {
        *value = draw_real(engine, std::get<RealBounds>(bounds));
    }
    void operator()(std::string* value) const { *value = draw_text(engine, true); }
    void operator()(ChoiceSlot const& choice) const {
        choice.set(choice.target,
                   static_cast<std::size_t>(draw(engine, 0, std::ssize(choice.names) - 1)));
    }
    void operator()(std::vector<std::string>* value) const {
        value->resize(static_cast<std::size_t>(draw(engine, 1, 3)));
        for (std::string& text : *value)
            text = draw_text(engine, false);
    }
    void operator()(std::vector<std::int64_t>* value) const {
        auto const& whole = std::get<IntegerBounds>(bounds);
        value->resize(static_cast<std::size_t>(draw(engine, 0, 3)));
        for (std::int64_t& number : *value)
            number = draw(engine, whole.lowest, whole.highest);
    }
    void operator()(std::optional<bool>* value) const { (*this)(&value->emplace()); }
    void operator()(Offload* value) const {
        for (Key<Offload> const& key : offload_keys())
            (*this)(std::get<bool*>(key.slot(*value)));
    }
    void operator()(std::optional<Offload>* value) const { (*this)(&value->emplace()); }
    void operator()(std::vector<double>*) const {}       // with the group's ranks
    void operator()(std::vector<core::RankId>*) const {} // all groups together
    void operator()(std::vector<Group>*) const {}        // likewise
    void operator()(std::vector<Chunk>*) const {}        // by the groups' layers
};

void draw_weights(Engine& engine, std::size_t ranks, std::vector<double>& weights) {
    weights.resize(ranks);
    for (double& weight : weights)
        weight = draw(engine, 0, 2) == 0 ? draw_real(engine, {0.0, 1e18})
                                         : static_cast<double>(draw(engine, 0, 9));
    weights[static_cast<std::size_t>(draw(engine, 0, std::ssize(weights) - 1))] = 1.5;
}

void draw_groups(Engine& engine, Job& job) {
    std::vector<core::RankId> ranks(static_cast<std::size_t>(draw(engine, 1, 20)));
    for (std::size_t i = 0; i < ranks.size(); ++i)
        ranks[i] = core::RankId{static_cast<std::int64_t>(i)};
    if (draw(engine, 0, 1) == 0)
        std::shuffle(ranks.begin(), ranks.end(), engine);
    std::int64_t layers = layer_count(job.model);
    while (!ranks.empty() && layers > 0) {
        Group& group = job.plan.groups.emplace_back();
        for (Key<Group> const& key : group_keys()) {
            Slot const slot = key.slot(group);
            std::visit(Fill{engine, key.bounds}, slot);
        }
        bool const last = layers == 1 || ranks.size() == 1 || draw(engine, 0, 3) == 0;
        std::size_t const taken =
            last ? ranks.size() : static_cast<std::size_t>(draw(engine, 1, std::ssize(ranks) - 1));
        group.ranks.assign(ranks.end() - static_cast<std::ptrdiff_t>(taken), ranks.end());
        ranks.resize(ranks.size() - taken);
        group.layers = last ? layers : draw(engine, 1, layers - 1);
        layers -= group.layers;
        if (group.dispatch == Dispatch::dealt && draw(engine, 0, 1) == 0)
            for (std::int64_t i = 0; i < job.train.batch_size; i += job.train.microbatch_size)
                group.deal.push_back(group.ranks[static_cast<std::size_t>(
                    draw(engine, 0, std::ssize(group.ranks) - 1))]);
        draw_weights(engine, taken, group.shares);
        draw_weights(engine, taken, group.shard_weights);
    }
}

/// Several chunks in each group: by number, or as a list.
void draw_chunks(Engine& engine, Plan& plan) {
    std::int64_t fewest = plan.groups.front().layers;
    for (Group const& group : plan.groups)
        fewest = std::min(fewest, group.layers);
    plan.chunks_per_group = draw(engine, 1, std::min<std::int64_t>(fewest, 1024));
    if (draw(engine, 0, 1) == 0)
        return;
    plan.chunks_per_group = 1;
    for (std::size_t g = 0; g < plan.groups.size(); ++g)
        for (std::int64_t& left = plan.groups[g].layers; left > 0;) {
            std::int64_t const layers = draw(engine, 1, left);
            plan.chunks.push_back({static_cast<std::int64_t>(g), layers, draw(engine, 0, 1) == 1});
            left -= layers;
        }
    std::shuffle(plan.chunks.begin(), plan.chunks.end(), engine);
}

/// One that the placement of the chunks allows.
void choose_schedule(Engine& engine, Plan& plan) {
    std::vector<Schedule> fitting{Schedule::automatic, Schedule::greedy, Schedule::gpipe,
                                  Schedule::breadth_first};
    bool const listed = !plan.chunks.empty();
    if (listed || plan.chunks_per_group == 1)
        fitting.insert(fitting.end(), {Schedule::one_f_one_b, Schedule::zb_h1, Schedule::zb_h2});
    if (listed || plan.chunks_per_group == 1 || plan.placement == Placement::round_robin)
        fitting.push_back(Schedule::interleaved);
    if (listed || (plan.chunks_per_group == 2 && plan.placement == Placement::v))
        fitting.push_back(Schedule::zb_v);
    plan.schedule = fitting[static_cast<std::size_t>(draw(engine, 0, std::ssize(fitting) - 1))];
}

/// What must fit together.
void make_consistent(Engine& engine, Job& job) {
    Model& model = job.model;
    for (auto const member : {&Model::vocabulary, &Model::hidden_size, &Model::ffn_size,
                              &Model::sequence_length, &Model::layers})
        model.*member = std::max<std::int64_t>(1, model.*member);
    // Sizes whose products stay below what a job may ask for.
    for (auto const& [member, most] :
         {std::pair{&Model::vocabulary, 1000000}, std::pair{&Model::hidden_size, 4096},
          std::pair{&Model::ffn_size, 1000000}, std::pair{&Model::sequence_length, 4096},
          std::pair{&Model::layers, 1000}})
        model.*member = std::min<std::int64_t>(model.*member, most);
    job.train.batch_size = std::min<std::int64_t>(job.train.batch_size, 4096);
    model.kv_heads = draw(engine, 1, 32);
    model.heads = model.kv_heads * draw(engine, 1, 8);
    model.head_size = 2 * draw(engine, 1, 64);
    if (job.data.format == Format::uint16)
        model.vocabulary = std::min<std::int64_t>(model.vocabulary, 65536);
    job.data.ignore_token = std::min<std::int64_t>(job.data.ignore_token, model.vocabulary - 1);
    std::replace(job.run.name.begin(), job.run.name.end(), '/', '_');
    job.run.name = "n" + job.run.name;
    job.run.out = "o" + job.run.out;
    job.run.time_limit = draw(engine, 0, 1) == 0 ? "" : "3:30:00";
    job.train.microbatch_size = draw(engine, 1, job.train.batch_size);
    job.optimizer.warmup_steps = draw(engine, 0, job.train.steps);
    job.optimizer.decay_steps =
        draw(engine, std::max<std::int64_t>(1, job.optimizer.warmup_steps), job.train.steps);
    job.optimizer.min_learning_rate =
        std::min(job.optimizer.min_learning_rate, job.optimizer.learning_rate);
    if (job.plan.interleave_updates) {
        job.optimizer.clip_norm = 0;
        job.train.on_nonfinite = OnNonfinite::report;
    }
    job.checkpoint.resume = draw(engine, 0, 1) == 0 ? "never" : "some/" + job.checkpoint.resume;
}

} // namespace

Job random_job(std::uint64_t seed) {
    Engine engine{seed};
    Job job;
    for (Table const& table : tables())
        for (Key<Job> const& key : table.keys) {
            Slot const slot = key.slot(job);
            std::visit(Fill{engine, key.bounds}, slot);
        }
    make_consistent(engine, job);
    if (draw(engine, 0, 2) > 0) {
        draw_groups(engine, job);
        draw_chunks(engine, job.plan);
    }
    choose_schedule(engine, job.plan);
    return job;
}

} // namespace evener::job
