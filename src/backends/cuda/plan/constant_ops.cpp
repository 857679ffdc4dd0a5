#include "backends/cuda/plan/constant_ops.hpp"

#include <algorithm>
#include <map>
#include <span>
#include <unordered_set>

#include "backends/cuda/plan/interpret.hpp"
#include "backends/cuda/plan/lower.hpp"
#include "support/hash.hpp"

namespace lathe::cuda {
namespace {

/// Bytes of a value, and of all values of an engine's plans, that are stored instead of computed.
constexpr std::size_t most_bytes = std::size_t{8} << 20, most_in_all = std::size_t{64} << 20;
const std::string prefix = "computed|";
/// Numbers that the interpreter goes through for a plan: a second or so, also where a loaded engine meets a new size.
constexpr std::int64_t most_numbers = std::int64_t{1} << 25;

bool is_light(const FusedOp& op) {
    if (const auto* indexed = std::get_if<Indexed>(&op.detail))
        return indexed->kind != IndexedKind::nonzero && indexed->kind != IndexedKind::list_boxes &&
               indexed->kind != IndexedKind::pick_boxes && indexed->kind != IndexedKind::roi_align;
    return std::holds_alternative<Pointwise>(op.detail) || std::holds_alternative<Transpose>(op.detail) ||
           std::holds_alternative<Slice>(op.detail) || std::holds_alternative<Reformat>(op.detail) ||
           std::holds_alternative<Gather>(op.detail) || std::holds_alternative<Concat>(op.detail) ||
           std::holds_alternative<Reduce>(op.detail) || std::holds_alternative<LayerNorm>(op.detail) ||
           std::holds_alternative<Softmax>(op.detail) || std::holds_alternative<Resize>(op.detail);
}

class ConstantOps {
public:
    ConstantOps(Plan& plan, const StoreComputed& store)
        : plan_(plan), store_(store), made_by_(plan.values.size(), none), constant_(plan.ops.size(), false) {
        for (std::size_t i = 0; i < plan.ops.size(); ++i)
            for (const ValueId id : plan.ops[i].outputs)
                made_by_[id] = i;
    }

    Result<void> run() {
        find();
        for (std::vector<ValueId> read = read_elsewhere(); !keep_storable(read);)
            read = read_elsewhere();
        LATHE_CHECK(compute(read_elsewhere()));
        std::erase_if(plan_.ops, [&](const FusedOp& op) {
            return std::ranges::all_of(op.outputs, [&](ValueId id) { return plan_.values[id].role == Role::constant; });
        });
        return {};
    }

private:
    static constexpr std::size_t none = ~std::size_t{0};

    /// The operation that makes a value's bytes; none: a constant or an input.
    std::size_t maker(ValueId id) const {
        const ValueId root = root_of(plan_, id);
        return plan_.values[root].role == Role::constant ? none : made_by_[root];
    }
    bool is_constant(ValueId id) const {
        const std::size_t made = maker(id);
        return made == none ? plan_.values[root_of(plan_, id)].role == Role::constant : constant_[made];
    }

    void find() {
        std::int64_t numbers = 0;
        for (std::size_t i = 0; i < plan_.ops.size(); ++i) {
            const FusedOp& op = plan_.ops[i];
            if (!is_light(op) || op.outputs.size() != 1 ||
                !std::ranges::all_of(op.inputs, [&](ValueId id) { return is_constant(id); }))
                continue;
            std::int64_t own = element_count(plan_.values[op.outputs[0]].dims);
            for (const ValueId id : op.inputs)
                own += element_count(plan_.values[id].dims);
            if (own > most_numbers - numbers) continue;
            numbers += own;
            constant_[i] = true;
        }
    }

    /// Results of constant operations that others read.
    std::vector<ValueId> read_elsewhere() const {
        std::vector<ValueId> found;
        std::unordered_set<ValueId> known;
        const auto add = [&](ValueId id) {
            const ValueId root = root_of(plan_, id);
            if (made_by_[root] != none && constant_[made_by_[root]] && known.insert(root).second) found.push_back(root);
        };
        for (std::size_t i = 0; i < plan_.ops.size(); ++i)
            if (!constant_[i]) std::ranges::for_each(plan_.ops[i].inputs, add);
        std::ranges::for_each(plan_.outputs, add);
        return found;
    }

    /// False: some of these cannot be stored, and what makes them is run; others are read elsewhere now.
    bool keep_storable(const std::vector<ValueId>& read) {
        std::unordered_set<ValueId> outputs;
        for (const ValueId id : plan_.outputs)
            outputs.insert(root_of(plan_, id));
        std::size_t bytes = 0;
        for (const Weight& each : plan_.weights->weights)
            if (each.key.starts_with(prefix)) bytes += each.bytes.size();
        bool all = true;
        for (const ValueId id : read) {
            const Value& value = plan_.values[id];
            bytes += value.byte_size();
            if (value.layout == Layout::linear && !value.part && !outputs.contains(id) &&
                value.type != ElementType::s8 && value.byte_size() <= most_bytes && bytes <= most_in_all)
                continue;
            bytes -= value.byte_size();
            constant_[made_by_[id]] = false;
            all = false;
        }
        return all;
    }

    /// A plan of what leads to some values, its own numbered as they come.
    Plan part(std::span<const ValueId> wanted) const {
        std::unordered_set<std::size_t> needed;
        const auto need = [&](auto&& self, ValueId id) -> void {
            const std::size_t made = maker(id);
            if (made == none || !needed.insert(made).second) return;
            for (const ValueId input : plan_.ops[made].inputs)
                self(self, input);
        };
        for (const ValueId id : wanted)
            need(need, id);
        Plan made;
        made.weights = plan_.weights;
        std::map<ValueId, ValueId> names;
        const auto name = [&](auto&& self, ValueId id) -> ValueId {
            if (const auto found = names.find(id); found != names.end()) return found->second;
            Value value = plan_.values[id];
            if (value.alias_of != lathe::cuda::none) value.alias_of = self(self, value.alias_of);
            value.name.clear();
            const auto fresh = static_cast<ValueId>(made.values.size());
            made.values.push_back(std::move(value));
            names.emplace(id, fresh);
            return fresh;
        };
        for (std::size_t i = 0; i < plan_.ops.size(); ++i) {
            if (!needed.contains(i)) continue;
            FusedOp op = plan_.ops[i];
            op.name.clear();
            op.nodes.clear();
            for (auto* list : {&op.inputs, &op.outputs})
                for (ValueId& id : *list)
                    id = name(name, id);
            made.ops.push_back(std::move(op));
        }
        for (const ValueId id : wanted)
            made.outputs.push_back(name(name, id));
        return made;
    }

    /// All at once, when the first is asked for: they may have much in common.
    Result<void> compute(const std::vector<ValueId>& wanted) {
        const Plan all = part(wanted);
        std::vector<HostTensor> results;
        std::vector<WeightId> weights;
        for (std::size_t i = 0; i < wanted.size(); ++i) {
            const Value& value = plan_.values[wanted[i]];
            const std::string text = print(part({&wanted[i], 1}));
            const std::string key = prefix + hash_hex(std::as_bytes(std::span(text)));
            LATHE_TRY(const WeightId weight,
                      store_(key, value.type, value.dims, [&]() -> Result<std::vector<std::byte>> {
                          if (results.empty()) {
                              LATHE_TRY(results, interpret(all, {}));
                          }
                          return std::vector<std::byte>(results[i].bytes.begin(), results[i].bytes.end());
                      }));
            weights.push_back(weight);
        }
        for (std::size_t i = 0; i < wanted.size(); ++i) {
            plan_.values[wanted[i]].weight = weights[i];
            plan_.values[wanted[i]].role = Role::constant;
        }
        return {};
    }

    Plan& plan_;
    const StoreComputed& store_;
    std::vector<std::size_t> made_by_; ///< by value: the operation whose result it is
    std::vector<bool> constant_;       ///< by operation
};

} // namespace

Result<void> compute_constants(Plan& plan, const StoreComputed& store) { return ConstantOps(plan, store).run(); }

} // namespace lathe::cuda
