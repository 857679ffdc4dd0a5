// Provider "lathe90w": Hopper kernels of transformers, large matrix products and attention on wgmma. A candidate of a
// product is a tile and whether two blocks share rows: "wide_s8_f16_m128n128_alternate_pair"; one of attention says how
// many warpgroups a block has, and whether they share rows: "attention_wgmma/2", "attention_wgmma/4split".
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "backends/cuda/kernels/sm90/attention_wgmma.hpp"
#include "backends/cuda/kernels/sm90/gemm_wgmma.hpp"
#include "backends/cuda/kernels/sm90/recurrent_cluster.hpp"
#include "backends/cuda/tactics/params.hpp"

namespace lathe::cuda {

using namespace kernels;

namespace {

struct WideCandidate {
    std::string id;
    int number = 0;    ///< tile, or warpgroups of attention
    bool pair = false; ///< of blocks; of attention: the warpgroups share rows
    double cost = 0;
};

using ProductMaps = std::array<std::byte, 256>;
using AttentionMaps = std::array<std::byte, 128 * attention_wgmma_maps>;

/// Time of the fullest multiprocessor in clock cycles, roughly: to order candidates.
double cost_of(const TileConfig& tile, bool alternate, const ImplicitGemm& op, const Device& device) {
    const auto up = [](double a, double b) { return std::ceil(a / b); };
    const double n = tile.n, chunks = up(op.params.c * static_cast<double>(bytes_of(op.in)), 128);
    const double tiles = up(static_cast<double>(op.rows()), tile.m) * up(op.params.k, n);
    const double each = up(tiles, std::max(1, device.multiprocessors));
    const double product = chunks * std::max(n * 4, 640.0);
    const double finish = tile.m * n * (op.epilogue.act > Activation::clip ? 0.2 : 0.1);
    if (!alternate) return each * (product + finish);
    return (each - 1) * std::max(product, finish / 2) + product + finish * 2;
}

Result<std::vector<WideCandidate>> products(const FusedOp& fused, const Plan& plan, const Device& device) {
    LATHE_TRY(const ImplicitGemm op, implicit_gemm(fused, plan));
    if (op.in != op.weight) return cannot(fused, "input and weight of different types");
    if (op.params.c != op.params.c_stride) return cannot(fused, "the weight's channels are padded unlike the input's");
    if (op.rows() < 64) return cannot(fused, "too few rows for large tiles");
    if (op.epilogue.residual != none) {
        const ElementType residual = plan.values[op.epilogue.residual].type;
        if (residual != ElementType::s8 && residual != op.out) return cannot(fused, "a residual of another type");
    }
    int count = 0;
    const TileConfig* tiles = wide_tiles(count);
    std::vector<WideCandidate> found;
    for (int i = 0; i < count; ++i) {
        if (tiles[i].in_type != type_number(op.in) || tiles[i].out_type != type_number(op.out)) continue;
        for (const bool pair : {false, true}) {
            if (!wide_takes(i, pair, op.params)) continue;
            const std::string id = std::string(tiles[i].name) + (pair ? "_pair" : "");
            const bool alternate = id.find("alternate") != std::string::npos;
            // No pair was the fastest for BERT's products on an H200 (all within 10 % of the tile alone): these come
            // last.
            constexpr double behind_all = 1e12;
            found.push_back({id, i, pair, cost_of(tiles[i], alternate, op, device) + (pair ? behind_all : 0)});
        }
    }
    if (found.empty()) return cannot(fused, "types, sizes or an activation without a tile");
    return found;
}

Result<std::vector<WideCandidate>> attentions(const FusedOp& fused, const Plan& plan, const Device& device) {
    LATHE_TRY(const AttentionParams params, attention_params(fused, plan));
    // Where every block has a multiprocessor for itself, its keys in turn are what takes time.
    const auto blocks = static_cast<double>(params.batch * params.heads * ((params.q_len + 63) / 64));
    const bool few = blocks <= 2.0 * device.multiprocessors;
    std::vector<WideCandidate> found;
    for (const AttentionWgmmaTile tile : {AttentionWgmmaTile{1}, AttentionWgmmaTile{2}, AttentionWgmmaTile{3},
                                          AttentionWgmmaTile{2, true}, AttentionWgmmaTile{4, true}}) {
        if (!attention_wgmma_takes(params, tile)) continue;
        const double cost = tile.split ? (few ? 1.0 / tile.groups : 3.0 + tile.groups) : tile.groups;
        found.push_back({"attention_wgmma/" + std::to_string(tile.groups) + (tile.split ? "split" : ""), tile.groups,
                         tile.split, cost});
    }
    if (found.empty()) return cannot(fused, "attention of a depth, length, mask or type without a kernel");
    return found;
}

Result<std::vector<WideCandidate>> recurrents(const FusedOp& fused, const Plan& plan, const Device& device) {
    const RecurrentParams params = recurrent_params(fused, plan);
    int count = 0;
    const RecurrentTile* tiles = recurrent_tiles(count);
    std::vector<WideCandidate> found;
    for (int i = 0; i < count; ++i) {
        if (!recurrent_cluster_takes(tiles[i], params)) continue;
        const std::string id =
            "recurrent_cluster/" + std::to_string(tiles[i].blocks) + "x" + std::to_string(tiles[i].samples);
        found.push_back({id, i, false, recurrent_cluster_cost(tiles[i], params, device.multiprocessors)});
    }
    if (found.empty()) return cannot(fused, "a recurrent state of a width, type or reset gate without a kernel");
    return found;
}

/// Best guess first. The error says why there are none.
Result<std::vector<WideCandidate>> ordered(const FusedOp& op, const Plan& plan, const Device& device) {
    if (device.sm != 90) return cannot(op, "needs a GPU of compute capability 9.0");
    const bool attends = std::holds_alternative<Attention>(op.detail);
    const bool recurs = std::holds_alternative<Recurrent>(op.detail);
    LATHE_TRY(auto found, attends  ? attentions(op, plan, device)
                          : recurs ? recurrents(op, plan, device)
                                   : products(op, plan, device));
    std::ranges::stable_sort(found, {}, &WideCandidate::cost);
    return found;
}

class WideProvider final : public Provider {
public:
    std::string name() const override { return "lathe90w"; }

    std::vector<std::string> candidates(const FusedOp& op, const Plan& plan, const Device& device, Effort effort,
                                        std::string& why) const override {
        const auto order = ordered(op, plan, device);
        if (!order) {
            why = order.error().message;
            return {};
        }
        const std::size_t wanted = effort == Effort::fast ? 3 : effort == Effort::standard ? 6 : order->size();
        std::vector<std::string> ids;
        for (const WideCandidate& candidate : *order) {
            if (ids.size() == wanted) break;
            ids.push_back(candidate.id);
        }
        return ids;
    }

    Result<std::unique_ptr<PreparedKernel>> prepare(const std::string& id, const FusedOp& op, const Plan& plan,
                                                    const Device& device) const override {
        LATHE_TRY(const std::vector<WideCandidate> all, ordered(op, plan, device));
        const auto chosen = std::ranges::find(all, id, &WideCandidate::id);
        if (chosen == all.end()) return no_such_tactic(name(), id, op);
        if (std::holds_alternative<Attention>(op.detail)) return attention(*chosen, op, plan);
        if (std::holds_alternative<Recurrent>(op.detail)) {
            int count = 0;
            const RecurrentTile tile = recurrent_tiles(count)[chosen->number];
            return make_kernel(id + " " + op.name, 0, true,
                               [tile, params = recurrent_params(op, plan),
                                set = recurrent_setter(op, plan)](const Pointers& pointers) -> Result<Launch> {
                                   RecurrentParams bound = params;
                                   set(bound, pointers);
                                   return Launch([tile, bound](cudaStream_t stream, bool programmatic) {
                                       return launch_recurrent_cluster(tile, bound, stream, programmatic);
                                   });
                               });
        }
        LATHE_TRY(const ImplicitGemm gemm, implicit_gemm(op, plan));
        return make_kernel(
            id + " " + op.name, 0, true,
            [gemm, tile = chosen->number, pair = chosen->pair, count = device.multiprocessors,
             op_name = op.name](const Pointers& pointers) -> Result<Launch> {
                const ImplicitGemmParams params = gemm.bound(pointers);
                ProductMaps maps{};
                LATHE_CUDA(encode_maps_wide(tile, pair, params, maps.data()), "the tensor maps of " + op_name);
                return Launch([params, maps, tile, pair, count](cudaStream_t stream, bool programmatic) {
                    return launch_wide_gemm(tile, pair, count, params, maps.data(), stream, programmatic);
                });
            });
    }

private:
    static Result<std::unique_ptr<PreparedKernel>> attention(const WideCandidate& chosen, const FusedOp& op,
                                                             const Plan& plan) {
        LATHE_TRY(const AttentionParams params, attention_params(op, plan));
        return make_kernel(
            chosen.id + " " + op.name, 0, true,
            [params, set = attention_setter(op, plan), tile = AttentionWgmmaTile{chosen.number, chosen.pair},
             op_name = op.name](const Pointers& pointers) -> Result<Launch> {
                AttentionParams bound = params;
                set(bound, pointers);
                AttentionMaps maps{};
                LATHE_CUDA(encode_maps_attention(bound, tile, maps.data()), "the tensor maps of " + op_name);
                return Launch([bound, maps, tile](cudaStream_t stream, bool /*programmatic*/) {
                    return launch_attention_wgmma(bound, tile, maps.data(), stream);
                });
            });
    }
};

} // namespace

std::unique_ptr<Provider> make_wide_provider() { return std::make_unique<WideProvider>(); }

} // namespace lathe::cuda
