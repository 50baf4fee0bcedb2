// SPDX-License-Identifier: Apache-2.0
#include "job/schema.hpp"

#include <algorithm>
#include <array>

namespace evener::job {

namespace {

template <class T>
Slot slot_of(T& member) {
    if constexpr (std::is_enum_v<T>) {
        return ChoiceSlot{&member, Names<T>::list,
                          [](void const* target) {
                              return static_cast<std::size_t>(*static_cast<T const*>(target));
                          },
                          [](void* target, std::size_t index) {
                              *static_cast<T*>(target) = static_cast<T>(index);
                          }};
    } else {
        return &member;
    }
}

template <auto TableMember, auto Member>
Slot slot(Job& job) {
    return slot_of((job.*TableMember).*Member);
}

template <auto Member>
Slot slot(Offload& offload) {
    return slot_of(offload.*Member);
}

template <auto Member>
Slot slot(Group& group) {
    return slot_of(group.*Member);
}

template <auto Member>
Slot slot(Chunk& chunk) {
    return slot_of(chunk.*Member);
}

constexpr std::int64_t most_steps = 1'000'000'000'000;
constexpr IntegerBounds steps_or_off{0, most_steps};

// A table, two lines a key.
// clang-format off
constexpr Key<Job> run_keys[] = {
    {"name", slot<&Job::run, &Run::name>, {},
     "Name of the run; empty: the job file's name without .toml"},
    {"out", slot<&Job::run, &Run::out>, {},
     "Run folder for checkpoints, metrics and plan.toml; empty: runs/<name>"},
    {"seed", slot<&Job::run, &Run::seed>, IntegerBounds{0},
     "Seed of initial weights and sample order"},
    {"devices", slot<&Job::run, &Run::devices>, {},
     "What ranks compute on: auto takes a GPU for as many ranks of a node as it has GPUs and the CPU for "
     "the others; reference is the slow specification in double"},
    {"threads", slot<&Job::run, &Run::threads>, IntegerBounds{0, 512},
     "Compute threads of each rank; 0: its cores divided by the ranks that share them"},
    {"nccl", slot<&Job::run, &Run::nccl>, {},
     "How groups of GPUs reduce gradients and gather weights: auto uses NCCL where the GPUs, drivers, "
     "NCCL versions and network adapters of a group are equal, and host memory elsewhere"},
    {"cuda_aware_mpi", slot<&Job::run, &Run::cuda_aware_mpi>, {},
     "Messages straight from and to GPU memory: auto where MPI says that it can, on refuses to start "
     "where it does not; off: by way of pinned host memory"},
    {"time_limit", slot<&Job::run, &Run::time_limit>, {},
     "Time after which the job must be over, such as \"3:30:00\" or seconds: it saves in time and ends "
     "with code 75; empty: the end of the Slurm job, where Slurm tells it"},
    {"watchdog_seconds", slot<&Job::run, &Run::watchdog_seconds>, IntegerBounds{-1, 1'000'000},
     "Seconds in which nothing moves on any rank, inside steps, after which the job ends with code 4 and "
     "says where each rank stands; 0: ten steps, but at least 60 s; -1: never"},
};

constexpr Key<Job> model_keys[] = {
    {"preset", slot<&Job::model, &Model::preset>, {},
     "Shape by name; keys given beside it override it, and 0 means the preset's value",
     "\"tiny\""},
    {"vocabulary", slot<&Job::model, &Model::vocabulary>, IntegerBounds{0, 10'000'000},
     "Token ids run from 0 to vocabulary - 1"},
    {"hidden_size", slot<&Job::model, &Model::hidden_size>, IntegerBounds{0, 1'000'000},
     "Width of the residual stream"},
    {"layers", slot<&Job::model, &Model::layers>, IntegerBounds{0, 10000},
     "Decoder layers, each one attention and one feed-forward"},
    {"heads", slot<&Job::model, &Model::heads>, IntegerBounds{0, 65536}, "Query heads"},
    {"kv_heads", slot<&Job::model, &Model::kv_heads>, IntegerBounds{0, 65536},
     "Key and value heads, a divisor of heads; 0: as many as heads"},
    {"head_size", slot<&Job::model, &Model::head_size>, IntegerBounds{0, 65536},
     "Width of a head, even; 0: hidden_size / heads"},
    {"ffn_size", slot<&Job::model, &Model::ffn_size>, IntegerBounds{0, 10'000'000},
     "Inner width of the feed-forward layers"},
    {"sequence_length", slot<&Job::model, &Model::sequence_length>, IntegerBounds{0, 10'000'000},
     "Tokens of a sequence"},
    {"rope_theta", slot<&Job::model, &Model::rope_theta>, RealBounds{1.0, 1e12},
     "Base of the rotary embedding's wavelengths"},
    {"norm_epsilon", slot<&Job::model, &Model::norm_epsilon>, RealBounds{0.0, 1.0, true},
     "Added to the mean square in RMSNorm"},
    {"tied_embeddings", slot<&Job::model, &Model::tied_embeddings>, {},
     "The head uses the embedding's weight"},
    {"attention_bias", slot<&Job::model, &Model::attention_bias>, {},
     "Biases of the query, key and value projections"},
    {"attention_output_bias", slot<&Job::model, &Model::attention_output_bias>, {},
     "Bias of the attention's output projection"},
    {"mlp_bias", slot<&Job::model, &Model::mlp_bias>, {}, "Biases of the feed-forward projections"},
    {"init_std", slot<&Job::model, &Model::init_std>, RealBounds{0.0, 1000.0},
     "Standard deviation of initial weights"},
    {"init_from", slot<&Job::model, &Model::init_from>, {},
     "Checkpoint or run folder to take the weights from, with a fresh optimizer; empty: "
     "random weights"},
};

constexpr Key<Job> data_keys[] = {
    {"train", slot<&Job::data, &Data::train>, {},
     "Token files to train on: paths or globs, in this order",
     "[\"data/train.bin\"]"},
    {"validation", slot<&Job::data, &Data::validation>, {}, "Token files for the validation loss"},
    {"format", slot<&Job::data, &Data::format>, {},
     "Format of the files; auto: llmc or megatron, by their header (raw files have none)"},
    {"shuffle", slot<&Job::data, &Data::shuffle>, {},
     "Train on the samples in a random order, another one each epoch"},
    {"ignore_token", slot<&Job::data, &Data::ignore_token>, IntegerBounds{-1, 4294967295},
     "Targets equal to this token count neither in the loss nor in the gradients; -1: none"},
};

constexpr Key<Job> train_keys[] = {
    {"steps", slot<&Job::train, &Train::steps>, IntegerBounds{1, most_steps},
     "Steps of the whole run, counted from step 0 also after a resume", "1000"},
    {"batch_size", slot<&Job::train, &Train::batch_size>, IntegerBounds{1, 10'000'000},
     "Sequences per step, over all ranks"},
    {"microbatch_size", slot<&Job::train, &Train::microbatch_size>, IntegerBounds{0, 10'000'000},
     "Sequences that pass through the pipeline together; the last microbatch of a batch "
     "may be smaller; 0: an eighth of the batch"},
    {"validate_every", slot<&Job::train, &Train::validate_every>, steps_or_off,
     "Steps between two validation losses; 0: never"},
    {"validation_batches", slot<&Job::train, &Train::validation_batches>, steps_or_off,
     "Batches of one validation; 0: all of the validation files"},
    {"on_nonfinite", slot<&Job::train, &Train::on_nonfinite>, {},
     "When loss or gradient is not finite: stop, skip the update, or only report it"},
    {"nonfinite_limit", slot<&Job::train, &Train::nonfinite_limit>, IntegerBounds{0, 1'000'000},
     "With on_nonfinite = \"skip\": skipped steps in a row before the job stops"},
};

constexpr Key<Job> optimizer_keys[] = {
    {"kind", slot<&Job::optimizer, &Optimizer::kind>, {},
     "AdamW with decoupled weight decay, or plain SGD"},
    {"learning_rate", slot<&Job::optimizer, &Optimizer::learning_rate>, RealBounds{0.0, 1000.0},
     "Highest learning rate, reached after the warm-up"},
    {"min_learning_rate", slot<&Job::optimizer, &Optimizer::min_learning_rate>,
     RealBounds{0.0, 1000.0}, "Learning rate at the end of the decay and after it"},
    {"warmup_steps", slot<&Job::optimizer, &Optimizer::warmup_steps>, steps_or_off,
     "Steps over which the learning rate rises linearly"},
    {"schedule", slot<&Job::optimizer, &Optimizer::schedule>, {},
     "How the learning rate falls after the warm-up"},
    {"decay_steps", slot<&Job::optimizer, &Optimizer::decay_steps>, steps_or_off,
     "Step at which the decay ends, the warm-up included; 0: train.steps"},
    {"beta1", slot<&Job::optimizer, &Optimizer::beta1>, RealBounds{0.0, 1.0, false, true},
     "AdamW: decay of the first moment"},
    {"beta2", slot<&Job::optimizer, &Optimizer::beta2>, RealBounds{0.0, 1.0, false, true},
     "AdamW: decay of the second moment"},
    {"epsilon", slot<&Job::optimizer, &Optimizer::epsilon>, RealBounds{0.0, 1.0, true},
     "AdamW: added to the root of the second moment"},
    {"weight_decay", slot<&Job::optimizer, &Optimizer::weight_decay>, RealBounds{0.0, 1000.0},
     "Decay of the weights; none on norms and biases"},
    {"clip_norm", slot<&Job::optimizer, &Optimizer::clip_norm>, RealBounds{0.0, 1e12},
     "Highest norm of the whole gradient; 0: no clipping"},
};

constexpr Key<Job> precision_keys[] = {
    {"compute", slot<&Job::precision, &Precision::compute>, {},
     "Type of matrix products and activations; auto: the fastest that all ranks of a group "
     "support. Weights, moments and gradients are float32"},
    {"boundary", slot<&Job::precision, &Precision::boundary>, {},
     "Type of activations sent between groups; auto: the narrower of the two groups'"},
};

constexpr Key<Job> plan_keys[] = {
    {"schedule", slot<&Job::plan, &Plan::schedule>, {},
     "Order of forward and backward passes; auto: the fastest that fits, greedy: by a search"},
    {"schedule_file", slot<&Job::plan, &Plan::schedule_file>, {},
     "CSV file with the order of every rank instead, such as the schedule.csv of a run; empty: none"},
    {"chunks_per_group", slot<&Job::plan, &Plan::chunks_per_group>, IntegerBounds{1, 1024},
     "Runs of layers that each group holds; its layers are cut evenly into so many"},
    {"placement", slot<&Job::plan, &Plan::placement>, {},
     "Order of the groups along the model when each holds several runs: from the first again, or "
     "back from the last"},
    {"split_backward", slot<&Job::plan, &Plan::split_backward>, {},
     "Compute input gradients and weight gradients in separate instructions"},
    {"recompute", slot<&Job::plan, &Plan::recompute>, {},
     "Keep only the input of each run of layers and compute it forward again before its backward "
     "pass: less memory for a third more time"},
    {"interleave_updates", slot<&Job::plan, &Plan::interleave_updates>, {},
     "Update weights as soon as their gradient is there, which frees it early; needs clip_norm = 0 "
     "and on_nonfinite = \"report\""},
    {"receive_buffers", slot<&Job::plan, &Plan::receive_buffers>, IntegerBounds{0, 65536},
     "Receive buffers of each direction of a link; 0: as many as the schedule needs"},
    {"memory_gib", slot<&Job::plan, &Plan::memory_gib>, RealBounds{0.0, 1e6},
     "GiB that each rank may take for the model and its steps; a schedule that needs more is not "
     "taken, and a plan that does is refused; 0: what a GPU has free, no limit on others"},
    {"profile", slot<&Job::plan, &Plan::profile>, {},
     "File of 'evener profile' with what layers and links cost in time; empty: estimated from FLOPs "
     "and matrix rates"},
    {"replan", slot<&Job::plan, &Plan::replan>, {},
     "Make a new plan on resume instead of keeping the groups of the checkpoint's plan"},
    {"on_mismatch", slot<&Job::plan, &Plan::on_mismatch>, {},
     "When the groups are for another number of ranks than there are: stop, or replan, which drops groups, "
     "chunks and schedule_file and plans anew"},
    {"offload", slot<&Job::plan, &Plan::offload>, {},
     "What GPUs keep in the host's memory while they do not need it; ranks on CPUs ignore it"},
    {"groups", slot<&Job::plan, &Plan::groups>, {},
     "Stage groups in the order of the model's layers; none: planned at start"},
    {"chunks", slot<&Job::plan, &Plan::chunks>, {},
     "Runs of layers in the order of the model, on any groups; none: the groups' layers, placed as "
     "the keys above say"},
};

constexpr Key<Job> checkpoint_keys[] = {
    {"every", slot<&Job::checkpoint, &Checkpoint::every>, steps_or_off,
     "Steps between two checkpoints; 0: only at the end"},
    {"every_seconds", slot<&Job::checkpoint, &Checkpoint::every_seconds>,
     IntegerBounds{0, 1'000'000'000},
     "Seconds between two checkpoints, beside 'every'; 0: only steps count"},
    {"keep", slot<&Job::checkpoint, &Checkpoint::keep>, IntegerBounds{1, 1'000'000},
     "Newest checkpoints to keep"},
    {"keep_every", slot<&Job::checkpoint, &Checkpoint::keep_every>, steps_or_off,
     "Keep also the checkpoints whose step is a multiple of this; 0: none"},
    {"layout", slot<&Job::checkpoint, &Checkpoint::layout>, {},
     "Data files of a checkpoint: per_node, or shared, one file that all nodes fill, which needs a file "
     "system that keeps what several nodes write into one file (not NFS)"},
    {"resume", slot<&Job::checkpoint, &Checkpoint::resume>, {},
     "\"auto\": the newest whole checkpoint of the run folder, if any; \"never\"; or the "
     "path of a checkpoint"},
    {"verify_on_load", slot<&Job::checkpoint, &Checkpoint::verify_on_load>, {},
     "Compare all checksums of a checkpoint before it is loaded, and take an older one where it is "
     "damaged; else they are compared while it loads, and damage ends the job"},
};

constexpr Key<Job> log_keys[] = {
    {"level", slot<&Job::log, &Log::level>, {}, "Lowest level printed"},
    {"step_every", slot<&Job::log, &Log::step_every>, IntegerBounds{1, most_steps},
     "Steps between two step lines"},
    {"gradients", slot<&Job::log, &Log::gradients>, {},
     "Folder that gets each step's reduced gradients by name, before clipping; empty: none"},
    {"progress", slot<&Job::log, &Log::progress>, {}, "Progress bar; auto: on a terminal only"},
    {"trace_steps", slot<&Job::log, &Log::trace_steps>, IntegerBounds{1, most_steps},
     "Steps whose instructions are timed and drawn, measured beside predicted: "
     "trace-step-N.svg, .json (for ui.perfetto.dev) and .csv in run.out; empty: none"},
};

constexpr Key<Offload> offload_key_list[] = {
    {"parameters", slot<&Offload::parameters>, {},
     "Weights in the compute type, fetched before the layers that use them"},
    {"optimizer", slot<&Offload::optimizer>, {},
     "Master weights, moments and reduced gradients, fetched for the update"},
    {"activations", slot<&Offload::activations>, {},
     "What a forward pass keeps for its backward pass, or the inputs to recompute from"},
};

constexpr Key<Group> group_key_list[] = {
    {"ranks", slot<&Group::ranks>, IntegerBounds{0, 999'999},
     "Ranks of the group; every rank stands in exactly one group", "[0, \"1-2\"]"},
    {"layers", slot<&Group::layers>, IntegerBounds{1, 20'002},
     "Next entries of the model's layer list: embedding, then attention and feed-forward "
     "of each decoder layer, then head (2 * model.layers + 2 in all)",
     "14"},
    {"shares", slot<&Group::shares>, RealBounds{0.0, 1e18},
     "Weight of each rank's part of the work, zero allowed; empty: equal"},
    {"dispatch", slot<&Group::dispatch>, {},
     "shares: each microbatch is divided by the weights; dealt: whole microbatches go to "
     "ranks by the weights"},
    {"deal", slot<&Group::deal>, IntegerBounds{0, 999'999},
     "With dispatch dealt: the rank of each microbatch of a batch; empty: by the weights, or with "
     "schedule auto by simulation"},
    {"shard_weights", slot<&Group::shard_weights>, RealBounds{0.0, 1e18},
     "Size of each rank's shard of weights and moments; empty: equal"},
    {"compute", slot<&Group::compute>, {}, "Compute type of the group; job: as [precision] says"},
    {"offload", slot<&Group::offload>, {},
     "What the group's GPUs offload, in place of [plan.offload]; [] is nothing",
     "[\"parameters\", \"optimizer\", \"activations\"]"},
};

constexpr Key<Chunk> chunk_key_list[] = {
    {"group", slot<&Chunk::group>, IntegerBounds{0, 999'999},
     "Place of its group in the list of groups, counted from 0", "0"},
    {"layers", slot<&Chunk::layers>, IntegerBounds{1, 20'002},
     "Next entries of the model's layer list; the groups then give no layers", "14"},
    {"recompute", slot<&Chunk::recompute>, {}, "In place of the plan's 'recompute'", "true"},
};
// clang-format on

constexpr std::array table_list{
    Table{"run", "What the run is called, where it writes, what it computes on", run_keys},
    Table{"model", "Llama-style decoder", model_keys},
    Table{"data", "Token files", data_keys},
    Table{"train", "Length of the run, batches, validation", train_keys},
    Table{"optimizer", "Optimizer and learning rate", optimizer_keys},
    Table{"precision", "Number types", precision_keys},
    Table{"plan", "Who does what; without groups a plan is made at start", plan_keys},
    Table{"checkpoint", "When to save, where to resume from", checkpoint_keys},
    Table{"log", "What is printed and recorded", log_keys},
};

} // namespace

std::span<Table const> tables() {
    return table_list;
}
std::span<Key<Offload> const> offload_keys() {
    return offload_key_list;
}
std::span<Key<Group> const> group_keys() {
    return group_key_list;
}
std::span<Key<Chunk> const> chunk_keys() {
    return chunk_key_list;
}

Table const* find_table(std::string_view name) {
    auto const found = std::ranges::find(table_list, name, &Table::name);
    return found == table_list.end() ? nullptr : &*found;
}

} // namespace evener::job
