// Provider "lathe90": the Hopper implicit GEMMs for convolutions and matrix products. A candidate is a kernel's tile
// and how many blocks of a cluster share a tile's reduction: "igemm_s8_m64n64k128_s8_wgmma_x4"; igemm streams both
// operands, rgemm keeps weights in shared memory, wgemm loads a window's pixels once for all taps, sgemm does so for
// few channels.
#include <algorithm>
#include <array>
#include <cstddef>

#include "backends/cuda/tactics/params.hpp"
#include "backends/cuda/tactics/sm90_cost.hpp"

namespace lathe::cuda {

using namespace kernels;

namespace {

constexpr std::array splits{1, 2, 4, 8};

struct Candidate {
    int tile = 0, split = 1;
    double cost = 0;
};

/// The tensor maps of a bound kernel, as the launch copies them.
using ConvMaps = std::array<std::byte, 384>;

/// Tiles that take this op, best guess first. The error says why there are none.
Result<std::vector<Candidate>> ordered(const ImplicitGemm& op, const FusedOp& fused, const Plan& plan,
                                       const Device& device) {
    if (device.sm != 90) return cannot(fused, "needs a GPU of compute capability 9.0");
    if (op.in != op.weight) return cannot(fused, "input and weight of different types");
    if (op.params.c != op.params.c_stride) return cannot(fused, "the weight's channels are padded unlike the input's");
    if (op.epilogue.residual != none) {
        const ElementType residual = plan.values[op.epilogue.residual].type;
        if (residual != ElementType::s8 && residual != op.out) return cannot(fused, "a residual of another type");
        const int stride = op.params.epilogue.residual_stride;
        if (stride != 0 && stride != op.params.k_pitch)
            return cannot(fused, "a residual whose pixels are as far apart as the output's alone");
    }
    int count = 0;
    const TileConfig* tiles = sm90_tiles(count);
    std::vector<Candidate> found;
    bool known_types = false;
    for (int i = 0; i < count; ++i) {
        const TileConfig& tile = tiles[i];
        if (tile.in_type != type_number(op.in) || tile.out_type != type_number(op.out)) continue;
        known_types = true;
        for (const int split : splits)
            if (sm90_takes(i, split, op.params))
                found.push_back({i, split,
                                 sm90_cost(tile, split, op.params, static_cast<int>(bytes_of(op.in)),
                                           static_cast<int>(bytes_of(op.out)), device.multiprocessors)});
    }
    if (!known_types) return cannot(fused, std::string("no tile for ") + to_string(op.in) + " to " + to_string(op.out));
    if (found.empty())
        return cannot(fused, "rows of channels that are not multiples of 16 bytes, or too large a window");
    std::stable_sort(found.begin(), found.end(),
                     [](const Candidate& a, const Candidate& b) { return a.cost < b.cost; });
    return found;
}

std::string id_of(const Candidate& candidate) {
    int count = 0;
    return std::string(sm90_tiles(count)[candidate.tile].name) + "_x" + std::to_string(candidate.split);
}

class Sm90Provider final : public Provider {
public:
    std::string name() const override { return "lathe90"; }

    std::vector<std::string> candidates(const FusedOp& op, const Plan& plan, const Device& device, Effort effort,
                                        std::string& why) const override {
        const auto found = implicit_gemm(op, plan);
        if (!found) {
            why = found.error().message;
            return {};
        }
        const auto order = ordered(*found, op, plan, device);
        if (!order) {
            why = order.error().message;
            return {};
        }
        const std::size_t wanted = effort == Effort::fast ? 4 : effort == Effort::standard ? 16 : order->size();
        std::vector<std::string> ids;
        for (const Candidate& candidate : *order) {
            if (ids.size() == wanted) break;
            ids.push_back(id_of(candidate));
        }
        return ids;
    }

    Result<std::unique_ptr<PreparedKernel>> prepare(const std::string& id, const FusedOp& op, const Plan& plan,
                                                    const Device& device) const override {
        LATHE_TRY(const ImplicitGemm gemm, implicit_gemm(op, plan));
        LATHE_TRY(const std::vector<Candidate> all, ordered(gemm, op, plan, device));
        const auto chosen =
            std::find_if(all.begin(), all.end(), [&](const Candidate& candidate) { return id_of(candidate) == id; });
        if (chosen == all.end()) return no_such_tactic(name(), id, op);
        return make_kernel(id + " " + op.name, 0, true,
                           [gemm, tile = chosen->tile, split = chosen->split,
                            op_name = op.name](const Pointers& pointers) -> Result<Launch> {
                               const ImplicitGemmParams params = gemm.bound(pointers);
                               ConvMaps maps{};
                               LATHE_CUDA(encode_maps_sm90(tile, params, maps.data()), "the tensor maps of " + op_name);
                               return Launch([params, maps, tile, split](cudaStream_t stream, bool programmatic) {
                                   return launch_implicit_gemm_sm90(tile, split, params, maps.data(), stream,
                                                                    programmatic);
                               });
                           });
    }
};

} // namespace

std::unique_ptr<Provider> make_sm90_provider() { return std::make_unique<Sm90Provider>(); }

} // namespace lathe::cuda
