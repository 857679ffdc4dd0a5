// Provider "lathe90": the Hopper implicit GEMM for convolutions and matrix products. A candidate is a tile and how many
// blocks of a cluster share a tile's reduction: "igemm_s8_m64n64k128_s8_wgmma_x4".
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "backends/cuda/tactics/params.hpp"

namespace lathe::cuda {

using namespace kernels;

namespace {

constexpr std::array splits{1, 2, 4, 8};

struct Candidate {
    int tile = 0, split = 1;
    double cost = 0;
};

/// The two tensor maps of a bound kernel, as the launch copies them.
using Maps = std::array<std::byte, 256>;

/// A figure that orders candidates: time of the fullest multiprocessor. The constants were fitted to measured times of
/// ResNet-50's layers at batch 1, 8 and 32 on an H100, where the best of the first eight is 0.3 % from the best of all.
double cost_of(const TileConfig& tile, int split, const ImplicitGemm& op, const Device& device) {
    const ImplicitGemmParams& p = op.params;
    const auto up = [](double a, double b) { return std::ceil(a / b); };
    const double m = tile.m, n = tile.n, chunk = tile.k_bytes;
    const double pixel = p.c_stride * static_cast<double>(bytes_of(op.in));
    const double steps = up(up(pixel, chunk) * p.r * p.s, split);
    const double blocks = up(static_cast<double>(op.rows()), m) * up(p.k_stride, n) * split;
    const double blocks_an_sm = up(blocks, std::max(1, device.multiprocessors));
    const double stages = std::min<double>(tile.stages, steps);
    const double shared = stages * (m + n) * chunk + (split > 1 ? m * n * 4 : 0) + 1024 * (1 + up(512 + n * 8, 1024));
    const double by_registers = m < 128 ? (n < 128 ? 4 : n < 256 ? 3 : 2) : m * n <= 128 * 128 ? 2 : 1;
    const double together = std::max(1.0, std::min(by_registers, std::floor(227 * 1024 / shared)));
    const double waves = up(blocks_an_sm, together);

    const double multiplying = blocks_an_sm * steps * m * std::max(n, 64.0) * chunk / 5.0e6;
    const double loading = blocks_an_sm * steps * (m + n) * chunk / 115e3;
    const double waiting = waves * (4.25 + steps * 0.236) + (split > 1 ? 0.94 + 0.62 * split : 0);
    const double finishing = blocks_an_sm * m * n / split * 1.43e-4 + waves * n / split * (m < 256 ? 1 : 2) * 0.0185;
    return std::max({multiplying, loading, waiting}) + finishing * (op.epilogue.residual == none ? 1.0 : 1.5);
}

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
        if (stride != 0 && stride != op.params.k_stride)
            return cannot(fused, "a residual whose channels are padded unlike the output's");
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
            if (sm90_takes(i, split, op.params)) found.push_back({i, split, cost_of(tile, split, op, device)});
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
        const std::size_t wanted = effort == Effort::fast ? 4 : effort == Effort::standard ? 8 : order->size();
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
                               Maps maps{};
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
