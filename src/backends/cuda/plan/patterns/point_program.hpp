#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "backends/cuda/plan/lowering.hpp"
#include "backends/cuda/plan/patterns/pointwise_ops.hpp"

namespace lathe::cuda {

/// A register program being written. Functions give the instruction's number, or nothing where the program has no room.
class PointProgram {
public:
    static constexpr std::size_t registers = 12; ///< results lie in them in turn: an older one is lost

    explicit PointProgram(Lowering& lowering) : lowering_(lowering) {}

    std::optional<std::size_t> emit(PointOp op, std::vector<std::size_t> operands = {}, float x = 0, float y = 0);
    std::optional<std::size_t> constant(float value) { return emit(PointOp::constant, {}, value); }

    /// An operand of a node: computed before, a scalar constant, or an input that is loaded.
    std::optional<std::size_t> operand(const std::string& name);
    std::optional<std::size_t> load(const std::string& name);
    void define(const std::string& name, std::size_t at) {
        at_[name] = at;
        computed_.insert(name);
    }
    bool alive(std::size_t at) const { return at + registers >= code_.size() + 1; }
    std::optional<std::size_t> find(const std::string& name) const {
        const auto found = at_.find(name);
        if (found == at_.end() || found->second + registers < code_.size()) return std::nullopt;
        return found->second;
    }
    const std::vector<PointInstruction>& code() const { return code_; }
    const std::vector<std::string>& inputs() const { return inputs_; }
    const std::vector<ClampedConstant>& clamped() const { return clamped_; }

private:
    Lowering& lowering_;
    std::vector<PointInstruction> code_;
    std::vector<std::string> inputs_;
    std::vector<ClampedConstant> clamped_;
    std::map<std::string, std::size_t> at_;
    std::unordered_set<std::string> computed_;
};

/// Whether the type is held in integers, truth values included.
bool is_integer(DataType type);
/// Integers of up to 16 bits and truth values, all of which float32 holds.
bool is_narrow(DataType type);
/// Appends a node's instructions; false where it does not fit, the program then being spoiled.
bool write_node(Lowering& lowering, PointProgram& p, const Node& node);

} // namespace lathe::cuda
