// Provider "lathe90c": Hopper's kernels for chains of 1x1 convolutions, and for one alone that adds a residual, see
// kernels/sm90/chain_gemm.cuh. A candidate is a compiled form: "chain_s8_k64n256n64_g4_t1".
#include <algorithm>
#include <array>
#include <cstddef>

#include "backends/cuda/kernels/sm90/chain_gemm.hpp"
#include "backends/cuda/tactics/params.hpp"

namespace lathe::cuda {

using namespace kernels;

namespace {

/// The tensor maps of a bound kernel, as the launch copies them.
using ChainMaps = std::array<std::byte, chain_maps_bytes>;

/// A chain's parts as kernels know them.
struct ChainParts {
    ImplicitGemm adding, shortcut, behind;
    bool has_shortcut = false, has_behind = false;

    ChainParams params() const { return {adding.params, shortcut.params, behind.params, has_shortcut, has_behind}; }
    ChainParams bound(const Pointers& pointers) const {
        ChainParams result = params();
        result.first = adding.bound(pointers);
        if (has_shortcut) result.down = shortcut.bound(pointers);
        if (has_behind) result.second = behind.bound(pointers);
        return result;
    }
};

Result<ChainParts> parts_of(const FusedOp& op, const Plan& plan) {
    ChainParts parts;
    const auto* chain = std::get_if<Chain>(&op.detail);
    if (chain == nullptr) {
        if (!std::holds_alternative<Conv>(op.detail)) return cannot(op, "not a convolution or chain of them");
        LATHE_TRY(parts.adding, implicit_gemm(op, plan));
        return parts;
    }
    if (chain->squeeze) return cannot(op, "squeeze and excite");
    LATHE_TRY(parts.adding, implicit_gemm(chain->adding(), plan));
    if (chain->shortcut) {
        LATHE_TRY(parts.shortcut, implicit_gemm(chain->parts[0], plan));
        parts.has_shortcut = true;
    }
    if (const FusedOp* behind = chain->behind()) {
        LATHE_TRY(parts.behind, implicit_gemm(*behind, plan));
        parts.has_behind = true;
    }
    return parts;
}

/// Forms that take this op. The error says why there are none.
Result<std::vector<int>> forms_for(const ChainParts& parts, const FusedOp& op, const Device& device) {
    if (device.sm != 90) return cannot(op, "needs a GPU of compute capability 9.0");
    int count = 0;
    chain_forms(count);
    std::vector<int> found;
    for (int i = 0; i < count; ++i)
        if (chain_takes(i, parts.params(), type_number(parts.adding.in))) found.push_back(i);
    if (found.empty()) return cannot(op, "no form for these channels (or no residual)");
    return found;
}

std::string name_of(int form) {
    int count = 0;
    return chain_forms(count)[form].name;
}

class ChainProvider final : public Provider {
public:
    std::string name() const override { return "lathe90c"; }

    std::vector<std::string> candidates(const FusedOp& op, const Plan& plan, const Device& device, Effort,
                                        std::string& why) const override {
        const auto parts = parts_of(op, plan);
        if (!parts) {
            why = parts.error().message;
            return {};
        }
        const auto forms = forms_for(*parts, op, device);
        if (!forms) {
            why = forms.error().message;
            return {};
        }
        std::vector<std::string> ids;
        std::transform(forms->begin(), forms->end(), std::back_inserter(ids), name_of);
        return ids;
    }

    Result<std::unique_ptr<PreparedKernel>> prepare(const std::string& id, const FusedOp& op, const Plan& plan,
                                                    const Device& device) const override {
        const auto found = parts_of(op, plan);
        if (!found) return no_such_tactic(name(), id, op);
        const auto forms = forms_for(*found, op, device);
        if (!forms) return no_such_tactic(name(), id, op);
        const auto form = std::find_if(forms->begin(), forms->end(), [&](int one) { return name_of(one) == id; });
        if (form == forms->end()) return no_such_tactic(name(), id, op);
        return make_kernel(
            id + " " + op.name, 0, true,
            [parts = *found, form = *form, op_name = op.name](const Pointers& pointers) -> Result<Launch> {
                const ChainParams params = parts.bound(pointers);
                ChainMaps maps{};
                LATHE_CUDA(encode_chain(form, params, maps.data()), "the tensor maps of " + op_name);
                return Launch([params, maps, form](cudaStream_t stream, bool programmatic) {
                    return launch_chain(form, params, maps.data(), stream, programmatic);
                });
            });
    }
};

} // namespace

std::unique_ptr<Provider> make_chain_provider() { return std::make_unique<ChainProvider>(); }

} // namespace lathe::cuda
