// SPDX-License-Identifier: Apache-2.0
#include "job/validate.hpp"

#include "job/duration.hpp"
#include "job/schema.hpp"
#include "job/suggest.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace evener::job {

namespace {

class BoundsCheck {
  public:
    BoundsCheck(Plan const& plan, Findings& findings)
        : lists_chunks_{!plan.chunks.empty()}, findings_{findings} {}

    template <class Owner>
    void operator()(std::span<Key<Owner> const> keys, Owner& owner, std::string_view table) {
        for (Key<Owner> const& key : keys) {
            std::string const name = fmt::format("{}.{}", table, key.name);
            Slot const slot = key.slot(owner);
            if (lists_chunks_ && std::is_same_v<Owner, Group> && key.name == "layers")
                continue; // stand with the chunks
            if (auto* const* value = std::get_if<std::int64_t*>(&slot))
                check(name, **value, key, slot);
            else if (auto* const* seed = std::get_if<std::uint64_t*>(&slot))
                check(name, static_cast<std::int64_t>(**seed), key, slot);
            else if (auto* const* real = std::get_if<double*>(&slot))
                check(name, **real, key, slot);
            else if (auto* const* list = std::get_if<std::vector<double>*>(&slot))
                check_list(name, **list, key);
            else if (auto* const* numbers = std::get_if<std::vector<std::int64_t>*>(&slot))
                check_list(name, **numbers, key);
            else if (auto* const* groups = std::get_if<std::vector<Group>*>(&slot))
                for (std::size_t i = 0; i < (*groups)->size(); ++i)
                    (*this)(group_keys(), (**groups)[i], fmt::format("{}[{}]", name, i));
            else if (auto* const* chunks = std::get_if<std::vector<Chunk>*>(&slot))
                for (std::size_t i = 0; i < (*chunks)->size(); ++i)
                    (*this)(chunk_keys(), (**chunks)[i], fmt::format("{}[{}]", name, i));
        }
    }

  private:
    template <class Owner, class T>
    void check_list(std::string const& name, std::vector<T>& list, Key<Owner> const& key) {
        for (std::size_t i = 0; i < list.size(); ++i)
            check(fmt::format("{}[{}]", name, i), list[i], key, &list[i]);
    }

    template <class Owner, class T>
    void check(std::string const& name, T value, Key<Owner> const& key, Slot const& slot) {
        if (within(key.bounds, value) || findings_.is_broken(name))
            return;
        std::string const use = describe_values(slot, key.bounds);
        if (!key.example.empty() && !findings_.is_given(name))
            findings_.add(name, fmt::format("'{}' is not given; use {}, such as {} = {}", name, use,
                                            key.name, key.example));
        else
            findings_.add(name, fmt::format("'{}' is {}; use {}", name, number_text(value), use));
    }

    bool lists_chunks_;
    Findings& findings_;
};

void check_run(Run const& run, Findings& findings) {
    if (run.name.empty() || run.name == "." || run.name == ".." ||
        run.name.find('/') != std::string::npos)
        findings.add_about(
            {"run.name"}, fmt::format("'run.name' is {} (it names a folder of results); use a name "
                                      "without '/', and 'run.out' for another place",
                                      quoted(run.name)));
    if (!run.time_limit.empty() && !parse_duration(run.time_limit))
        findings.add_about({"run.time_limit"},
                           fmt::format("'run.time_limit' is {} (no duration); use seconds, "
                                       "\"MM:SS\", \"HH:MM:SS\" or \"D-HH:MM:SS\"",
                                       quoted(run.time_limit)));
}

void check_model(Model const& model, Findings& findings) {
    struct Size {
        std::string_view key;
        std::int64_t value;
    };
    bool complete = true;
    for (auto const& [key, value] :
         {Size{"model.vocabulary", model.vocabulary}, Size{"model.hidden_size", model.hidden_size},
          Size{"model.layers", model.layers}, Size{"model.heads", model.heads},
          Size{"model.ffn_size", model.ffn_size},
          Size{"model.sequence_length", model.sequence_length}}) {
        complete = complete && value > 0;
        if (value == 0)
            findings.add_about(
                {key, "model.preset"},
                fmt::format("'{}' is not given (and no preset is named); give it, or "
                            "write preset = \"tiny\" in [model]",
                            key));
    }
    if (!complete)
        return;
    if (model.kv_heads > 0 && model.heads % model.kv_heads != 0)
        findings.add_about({"model.kv_heads", "model.heads", "model.preset"},
                           fmt::format("'model.kv_heads' is {} (it does not divide the {} heads); "
                                       "use a divisor of {}",
                                       model.kv_heads, model.heads, model.heads));
    if (model.head_size == 0)
        findings.add_about({"model.heads", "model.hidden_size", "model.preset"},
                           fmt::format("'model.heads' is {} (it does not divide hidden_size {}); "
                                       "use a divisor of {}, or give model.head_size",
                                       model.heads, model.hidden_size, model.hidden_size));
    else if (model.head_size % 2 != 0)
        findings.add_about(
            {"model.head_size", "model.heads", "model.hidden_size", "model.preset"},
            fmt::format("'model.head_size' is {} (the rotary embedding turns pairs); "
                        "use an even number",
                        model.head_size));
}

void check_data(Data const& data, Model const& model, Findings& findings) {
    if (data.train.empty())
        findings.add_about({"data.train"}, "'data.train' is not given; list token files, such as "
                                           "train = [\"data/train.bin\"] in [data]");
    for (auto const& [key, paths] :
         {std::pair{"data.train", &data.train}, std::pair{"data.validation", &data.validation}})
        for (std::size_t i = 0; i < paths->size(); ++i)
            if ((*paths)[i].empty())
                findings.add(fmt::format("{}[{}]", key, i),
                             fmt::format("'{}[{}]' is empty; use a path or a glob", key, i));
    if (model.vocabulary > 0 && data.ignore_token >= model.vocabulary)
        findings.add_about({"data.ignore_token", "model.vocabulary", "model.preset"},
                           fmt::format("'data.ignore_token' is {} (the vocabulary ends at {}); use "
                                       "an id below, or -1 for none",
                                       data.ignore_token, model.vocabulary - 1));
    constexpr std::int64_t ids = 65536; // that two bytes can name
    if (data.format == Format::uint16 && model.vocabulary > ids)
        findings.add_about({"data.format", "model.vocabulary", "model.preset"},
                           fmt::format("'data.format' is \"uint16\" (ids up to {}), but "
                                       "'model.vocabulary' is {}; use \"uint32\", or a smaller "
                                       "vocabulary",
                                       ids - 1, model.vocabulary));
}

void check_train(Train const& train, Data const& data, Findings& findings) {
    if (train.microbatch_size > train.batch_size)
        findings.add_about(
            {"train.microbatch_size", "train.batch_size"},
            fmt::format("'train.microbatch_size' is {} (the batch has {} sequences); "
                        "use 1 to {}",
                        train.microbatch_size, train.batch_size, train.batch_size));
    constexpr std::int64_t most_microbatches = 16384; // each has instructions of its own
    if (train.microbatch_size > 0 &&
        (train.batch_size - 1) / train.microbatch_size >= most_microbatches)
        findings.add_about({"train.microbatch_size", "train.batch_size"},
                           fmt::format("'train.microbatch_size' is {} (a batch of {} would be more "
                                       "than {} microbatches); use at least {}",
                                       train.microbatch_size, train.batch_size, most_microbatches,
                                       (train.batch_size - 1) / most_microbatches + 1));
    if (train.validate_every > 0 && data.validation.empty())
        findings.add_about({"train.validate_every", "data.validation"},
                           fmt::format("'train.validate_every' is {}, but there are no validation "
                                       "files; list them as 'data.validation', or use 0",
                                       train.validate_every));
}

void check_optimizer(Optimizer const& optimizer, Train const& train, Findings& findings) {
    if (optimizer.warmup_steps > train.steps)
        findings.add_about(
            {"optimizer.warmup_steps", "train.steps"},
            fmt::format("'optimizer.warmup_steps' is {} (the run has {} steps); use 0 "
                        "to {}",
                        optimizer.warmup_steps, train.steps, train.steps));
    else if (optimizer.decay_steps < optimizer.warmup_steps)
        findings.add_about(
            {"optimizer.decay_steps", "optimizer.warmup_steps", "train.steps"},
            fmt::format("'optimizer.decay_steps' is {} (the warm-up takes {} steps of "
                        "it); use at least {}",
                        optimizer.decay_steps, optimizer.warmup_steps, optimizer.warmup_steps));
    if (optimizer.min_learning_rate > optimizer.learning_rate)
        findings.add_about({"optimizer.min_learning_rate", "optimizer.learning_rate"},
                           fmt::format("'optimizer.min_learning_rate' is {} (the learning rate is "
                                       "{}); use 0 to {}",
                                       optimizer.min_learning_rate, optimizer.learning_rate,
                                       optimizer.learning_rate));
}

/// Every size that is computed from these stays far below 2^63 bytes.
void check_sizes(Model const& model, Train const& train, Findings& findings) {
    constexpr double most_bytes = 1e15;
    auto const number = [](std::int64_t value) { return static_cast<double>(value); };
    double const width =
        std::max({number(model.hidden_size), 2 * number(model.ffn_size), number(model.vocabulary),
                  number(model.heads + 2 * model.kv_heads) * number(model.head_size)});
    double const layer = width * number(model.hidden_size) * 4;
    double const tokens = number(train.batch_size) * number(model.sequence_length);
    if (layer * number(model.layers) * 16 > most_bytes)
        findings.add_about({"model.layers", "model.hidden_size", "model.ffn_size", "model.preset"},
                           fmt::format("the model takes about {:.0e} bytes (over a million GB); "
                                       "use smaller sizes",
                                       layer * number(model.layers) * 4));
    if (tokens * width * 4 > most_bytes)
        findings.add_about({"train.batch_size", "model.sequence_length", "model.preset"},
                           fmt::format("a batch has {:.0e} tokens (over a million GB of "
                                       "activations); use a smaller batch or shorter sequences",
                                       tokens));
}

void check_log(Log const& log, Run const& run, Findings& findings) {
    if (!log.gradients.empty() && log.gradients == run.out)
        findings.add_about({"log.gradients", "run.out"},
                           fmt::format("'log.gradients' is {} (the run folder, where its records "
                                       "would look like checkpoints); use another folder",
                                       quoted(log.gradients)));
}

void check_checkpoint(Checkpoint const& checkpoint, Findings& findings) {
    std::string const& resume = checkpoint.resume;
    if (resume == "auto" || resume == "never")
        return;
    for (std::string_view const word : {"auto", "never"})
        if (resume.empty() || edit_distance(resume, word) <= 1) {
            findings.add_about({"checkpoint.resume"},
                               fmt::format("'checkpoint.resume' is {}; use \"auto\", \"never\" or "
                                           "the path of a checkpoint (\"./{}\" for a folder of "
                                           "that name)",
                                           quoted(resume), resume.empty() ? "name" : resume));
            return;
        }
}

/// An update that does not wait for the norm can neither be clipped by it nor skipped for it.
void check_interleaved_updates(Job const& job, Findings& findings) {
    std::string_view const key = "plan.interleave_updates";
    if (!job.plan.interleave_updates)
        return;
    if (job.optimizer.clip_norm > 0)
        findings.add_about({key, "optimizer.clip_norm"},
                           fmt::format("'{}' is true, but 'optimizer.clip_norm' is {:g} (an update "
                                       "that does not wait for the norm of the whole gradient "
                                       "cannot be clipped); set 'optimizer.clip_norm' to 0, or "
                                       "leave '{}' out",
                                       key, job.optimizer.clip_norm, key));
    if (job.train.on_nonfinite != OnNonfinite::report)
        findings.add_about({key, "train.on_nonfinite"},
                           fmt::format("'{}' is true, but 'train.on_nonfinite' is \"{}\" (an "
                                       "update that does not wait for the norm of the whole "
                                       "gradient cannot be skipped); set 'train.on_nonfinite' to "
                                       "\"report\", or leave '{}' out",
                                       key, name_of(job.train.on_nonfinite), key));
}

} // namespace

void validate_plan_alone(Plan const& plan, ParseOptions const& options, Findings& findings) {
    Job holder;
    holder.plan = plan;
    BoundsCheck{plan, findings}(find_table("plan")->keys, holder, "plan");
    validate_plan(plan, nullptr, options, findings);
}

void validate(Job const& job, ParseOptions const& options, Findings& findings) {
    Job copy = job; // slots point into a mutable job
    for (Table const& table : tables())
        BoundsCheck{job.plan, findings}(table.keys, copy, table.name);
    check_run(job.run, findings);
    check_model(job.model, findings);
    check_data(job.data, job.model, findings);
    check_train(job.train, job.data, findings);
    check_optimizer(job.optimizer, job.train, findings);
    check_checkpoint(job.checkpoint, findings);
    check_sizes(job.model, job.train, findings);
    check_log(job.log, job.run, findings);
    validate_plan(job.plan, &job.model, options, findings);
    validate_deals(job.plan, job.train, findings);
    check_interleaved_updates(job, findings);
}

} // namespace evener::job
