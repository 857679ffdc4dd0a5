// Apart from batching.cpp, which needs no engine: the ThreadSanitizer test is built from that alone.
#include "runtime/batching.hpp"

namespace lathe {

namespace {

class SessionExecutor final : public BatchExecutor {
public:
    explicit SessionExecutor(Session session) : session_(std::move(session)) {}
    const std::vector<IoInfo>& inputs() const override { return session_.inputs(); }
    std::span<std::byte> input_memory(std::size_t index) override { return session_.input_memory(index); }
    Result<std::vector<TensorView>> run(std::span<const TensorView> inputs) override { return session_.run(inputs); }

private:
    Session session_;
};

} // namespace

Result<BatchingSession> BatchingSession::start(const Engine& engine, const BatchingOptions& options) {
    std::vector<Session> sessions;
    for (std::size_t i = 0; i < options.instances; ++i) {
        LATHE_TRY(Session session, engine.make_session());
        sessions.push_back(std::move(session));
    }
    return start(std::move(sessions), options);
}

Result<BatchingSession> BatchingSession::start(std::vector<Session> sessions, const BatchingOptions& options) {
    std::vector<std::unique_ptr<BatchExecutor>> executors;
    for (Session& session : sessions)
        executors.push_back(std::make_unique<SessionExecutor>(std::move(session)));
    return BatchingAccess::start(std::move(executors), options);
}

} // namespace lathe
