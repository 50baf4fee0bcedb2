// SPDX-License-Identifier: Apache-2.0
#pragma once

// The running state of one task: made when the task starts, advanced by the transport thread until
// it has ended. `advance` never blocks and returns whether anything moved; errors are thrown.
//
// The direct exchange. Everyone who has something for an owner (or a holder) sends it in blocks, a
// few at a time; receivers post blocks in the order in which they use them. No receiver waits for a
// sender that waits for it, since the sends to different ranks are independent of each other.

#include "comm/requests.hpp"
#include "comm/tasks.hpp"

#include <memory>
#include <vector>

namespace evener::comm {

/// Blocks in flight per sender and receiver, and staging blocks per collective queue.
inline constexpr std::size_t blocks_in_flight = 4;

/// What running tasks share.
struct ExchangeContext {
    Requests& requests;
    int rank = 0;
    int size = 1;
    MPI_Comm directions[2] = {MPI_COMM_NULL, MPI_COMM_NULL};
    MPI_Comm blocks = MPI_COMM_NULL;
    MPI_Comm scalars = MPI_COMM_NULL;
    std::int64_t message_block_bytes = 0;
    std::int64_t exchange_block_bytes = 0; ///< a multiple of 4
};

/// Throws core::ContractViolation when the task cannot be: see tasks.hpp.
void check(Task const& task, ExchangeContext const& context, std::int64_t max_tag);

/// The other end of a message of this direction.
Endpoint endpoint(ExchangeContext const& context, Direction direction, core::RankId peer,
                  std::int64_t tag);

/// blocks_in_flight blocks of exchange_block_bytes.
struct Staging {
    explicit Staging(std::int64_t block_bytes);
    std::byte* block(std::size_t index) const {
        return memory.get() + index * static_cast<std::size_t>(block_bytes);
    }
    std::int64_t bytes() const { return block_bytes * static_cast<std::int64_t>(blocks_in_flight); }

    std::int64_t block_bytes;
    std::unique_ptr<std::byte[]> memory;
};

/// One message, whole or cut where it is longer than a block; all parts are posted at once and keep
/// their order by having one tag.
class MessageRun {
  public:
    MessageRun(ExchangeContext const& context, SendTask const& task);
    MessageRun(ExchangeContext const& context, ReceiveTask const& task);
    /// Receives.
    MessageRun(ExchangeContext const& context, Endpoint const& from, std::byte* data,
               std::int64_t bytes);

    bool advance();
    bool ended() const { return next_ == parts_.size(); }

  private:
    Requests* requests_;
    std::vector<Requests::Slot> parts_;
    std::size_t next_ = 0;
};

/// Bytes for one peer, a few blocks in flight.
class BlockSender {
  public:
    BlockSender(Requests& requests, Endpoint const& to, std::byte const* data, std::int64_t bytes,
                std::int64_t block_bytes)
        : requests_{&requests}, to_{to}, data_{data}, bytes_{bytes}, block_bytes_{block_bytes} {}

    bool advance();
    bool ended() const { return sent_ == bytes_ && in_flight_.empty(); }

  private:
    Requests* requests_;
    Endpoint to_;
    std::byte const* data_;
    std::int64_t bytes_;
    std::int64_t block_bytes_;
    std::int64_t sent_ = 0;
    std::vector<Requests::Slot> in_flight_; ///< oldest first
};

/// Blocks that come in a known order and are used in that order, through staging.
class BlockReceiver {
  public:
    struct Block {
        int peer = 0;
        std::int64_t bytes = 0;
    };

    BlockReceiver(ExchangeContext const& context, Staging const& staging, int tag)
        : context_{&context}, staging_{&staging}, tag_{tag} {}

    void expect(Block const& block) { blocks_.push_back(block); }
    /// Posts what there is room for.
    bool post();
    /// The oldest block if it has come, else null.
    std::byte const* front();
    void pop();
    bool ended() const { return used_ == blocks_.size(); }

  private:
    ExchangeContext const* context_;
    Staging const* staging_;
    int tag_;
    std::vector<Block> blocks_;
    std::size_t posted_ = 0;
    std::size_t used_ = 0;
    bool front_came_ = false;
    Requests::Slot slots_[blocks_in_flight] = {};
};

class ReduceRun {
  public:
    ReduceRun(ExchangeContext const& context, Staging const& staging, ReduceTask const& task);

    bool advance();
    bool ended() const;

  private:
    bool add_next();

    ExchangeContext const* context_;
    ReduceTask const* task_;
    core::Range shard_; ///< own
    std::vector<BlockSender> senders_;
    BlockReceiver receiver_;
    std::int64_t block_begin_ = 0; ///< element of the shard, of the block being added
    std::size_t contributor_ = 0;  ///< whose turn it is
};

class GatherRun {
  public:
    GatherRun(ExchangeContext const& context, Staging const& staging, GatherTask const& task);

    bool advance();
    bool ended() const;

  private:
    void send_shard(OwnedPart const& part, core::DType own_type);
    void receive_shards(core::DType own_type);
    bool convert_next();

    /// Where an expected block goes after rounding.
    struct Target {
        std::byte* dst = nullptr;
        std::int64_t elements = 0;
    };

    ExchangeContext const* context_;
    GatherTask const* task_;
    core::DType own_type_ = core::DType::float32;
    std::vector<BlockSender> senders_;
    std::vector<MessageRun> messages_; ///< shards that come in this rank's own type
    BlockReceiver receiver_;           ///< shards that come as float32 and are converted
    std::vector<Target> targets_;
    std::size_t converted_ = 0;
};

/// Bytes of unknown length from one peer: their number, then they themselves.
class RecordReceive {
  public:
    RecordReceive(Requests& requests, Endpoint const& from);
    bool advance();
    bool ended() const { return ended_; }
    std::vector<std::byte>& bytes() { return bytes_; }

  private:
    Requests* requests_;
    Endpoint from_;
    std::unique_ptr<std::int64_t> length_; ///< stays in place when this is moved
    Requests::Slot slot_ = 0;
    bool length_came_ = false;
    bool ended_ = false;
    std::vector<std::byte> bytes_;
};

class ScalarsRun {
  public:
    ScalarsRun(ExchangeContext const& context, ScalarsTask const& task);

    bool advance();
    bool ended() const { return ended_; }

  private:
    void send_record(int peer, int tag);
    bool sends_ended();
    bool receives_ended() const;
    void combine();

    ExchangeContext const* context_;
    ScalarsTask const* task_;
    std::vector<std::byte> own_; ///< contribution, on rank 0 later the result
    std::unique_ptr<std::int64_t> own_length_;
    std::vector<Requests::Slot> sends_;
    std::vector<RecordReceive> receives_; ///< of rank 0: ranks 1, 2, ...; of others: the result
    bool combined_ = false;
    bool ended_ = false;
};

} // namespace evener::comm
