#include "backends/api/absent_backend.hpp"

#include <utility>

namespace lathe {

namespace {

class Absent final : public Backend {
public:
    explicit Absent(AbsentBackend description) : description_(std::move(description)) {}

    std::string name() const override { return description_.name; }
    std::string device() const override { return description_.device; }
    Availability availability() const override {
        const std::string found = description_.found ? description_.found() : "";
        return {false, "", {}, description_.cause + found, description_.cure};
    }
    Support supports(const Node& /*node*/, const Model& /*model*/) const override {
        return {false, description_.cause};
    }
    Result<std::unique_ptr<CompiledModel>> compile(const Model& /*model*/,
                                                   const CompileOptions& /*options*/) const override {
        return refusal();
    }
    Result<std::unique_ptr<CompiledModel>> load(std::span<const std::byte> /*blob*/,
                                                std::shared_ptr<const void> /*owner*/,
                                                const CompileOptions& /*options*/) const override {
        return refusal();
    }
    Result<std::unique_ptr<ActivationSource>> observe(const Model& /*model*/, std::vector<std::string> /*tensors*/,
                                                      std::size_t /*threads*/) const override {
        return refusal();
    }
    std::string blob_key() const override { return description_.name + " absent"; }

private:
    Error refusal() const { return {ErrorCode::unsupported, description_.cause, description_.name, description_.cure}; }

    AbsentBackend description_;
};

} // namespace

std::unique_ptr<Backend> make_absent_backend(AbsentBackend description) {
    return std::make_unique<Absent>(std::move(description));
}

} // namespace lathe
