// Tells how closely an engine of less precision follows the float one, on labelled or unlabelled data.
//   compare_precision fp32.engine int8.engine data
#include <cstdio>

#include <lathe/engine.hpp>
#include <lathe/evaluate.hpp>

namespace {

void print_share(const char* what, const lathe::Measured& share) {
    std::printf("%s: %.2f %% (%.2f..%.2f)\n", what, 100 * share.value, 100 * share.low, 100 * share.high);
}

lathe::Result<void> compare(char** argv) {
    LATHE_TRY(const lathe::Engine reference, lathe::Engine::load(argv[1]));
    LATHE_TRY(const lathe::Engine subject, lathe::Engine::load(argv[2]));
    LATHE_TRY(const auto result, lathe::compare_engines(reference, subject, argv[3]));
    std::printf("%s against %s on %zu samples\n", result.subject.precision.c_str(), result.reference.precision.c_str(),
                result.subject.samples);
    if (result.reference.top1) print_share("top-1 of the reference", *result.reference.top1);
    if (result.subject.top1) print_share("top-1", *result.subject.top1);
    if (result.top1_delta) print_share("difference", *result.top1_delta);
    if (result.p_value) std::printf("McNemar p: %.3f\n", *result.p_value);
    print_share("agreement", result.agreement);
    std::printf("mean KL: %.5f, SQNR: %.1f dB, cosine: %.6f, largest error: %g\n", result.mean_kl, result.sqnr_db,
                result.cosine, result.max_abs_error);
    return {};
}

} // namespace

int main(int argc, char** argv) {
    if (argc != 4) {
        std::fprintf(stderr, "usage: %s fp32.engine int8.engine data\n", argv[0]);
        return 2;
    }
    const auto result = compare(argv);
    if (!result) std::fprintf(stderr, "%s\n", result.error().describe().c_str());
    return result ? 0 : 1;
}
