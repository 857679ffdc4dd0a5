// The simulation against queues whose answers are known in closed form. Times in ms, rates in 1/ms.
#include <cmath>

#include <gtest/gtest.h>

#include "plan/machines.hpp"

namespace lathe::test {
namespace {

constexpr std::size_t many = 1'000'000;

std::vector<double> arrivals(double per_ms, std::size_t count = many) {
    return Arrivals::poisson(1000 * per_ms, 7).at_one_of(1, count);
}

/// Relative difference; what is allowed covers the noise of a million correlated requests (seeds are fixed).
void expect_close(double simulated, double exact, double relative, const std::string& what) {
    EXPECT_NEAR(simulated, exact, relative * exact) << what;
}

TEST(Queues, MM1) {
    // Kleinrock, Queueing Systems I, 5.11: the time in the system is exponential with rate mu - lambda.
    for (const double load : {0.3, 0.6, 0.85}) {
        const auto simulation = simulate(machine(TimeDistribution::exponential(1)), arrivals(load));
        const double rate = 1 - load;
        const std::string what = "load " + std::to_string(load);
        expect_close(mean_of(simulation.total), 1 / rate, 0.02, what + ", mean");
        expect_close(quantile_of(simulation.total, 0.5), std::log(2.0) / rate, 0.02, what + ", median");
        expect_close(quantile_of(simulation.total, 0.99), std::log(100.0) / rate, 0.04, what + ", p99");
        EXPECT_NEAR(simulation.utilisation, load, 0.01);
        EXPECT_EQ(simulation.mean_batch, 1);
    }
}

/// P(W <= t) of M/D/1 with service time 1 (Erlang 1909; Gross and Harris, Fundamentals of Queueing Theory, 5.1).
double md1_wait_cdf(double load, double t) {
    long double sum = 0;
    for (int k = 0; k <= static_cast<int>(std::floor(t)); ++k) {
        const long double x = static_cast<long double>(load) * (t - k); // of alternating sign below
        sum += std::pow(-x, static_cast<long double>(k)) / std::tgamma(static_cast<long double>(k) + 1) * std::exp(x);
    }
    return static_cast<double>((1 - static_cast<long double>(load)) * sum);
}

TEST(Queues, MD1) {
    for (const double load : {0.3, 0.6, 0.8}) {
        const auto simulation = simulate(machine(TimeDistribution::fixed(1)), arrivals(load));
        const auto& queue = column(simulation, "queue");
        const std::string what = "load " + std::to_string(load);
        // Pollaczek and Khinchine.
        expect_close(mean_of(queue), load / (2 * (1 - load)), 0.02, what + ", mean wait");
        for (const double t : {0.0, 0.5, 1.5, 3.5}) {
            const auto within = std::ranges::count_if(queue, [t](double wait) { return wait <= t; });
            EXPECT_NEAR(static_cast<double>(within) / static_cast<double>(queue.size()), md1_wait_cdf(load, t), 0.004)
                << what << ", wait of at most " << t;
        }
    }
}

/// Erlang's C: the probability that all of `servers` are busy, offered `traffic` erlangs.
double erlang_c(int servers, double traffic) {
    double term = 1;
    double sum = 0;
    for (int k = 0; k < servers; ++k) {
        sum += term;
        term *= traffic / (k + 1);
    }
    const double waiting = term * servers / (servers - traffic);
    return waiting / (sum + waiting);
}

TEST(Queues, MMc) {
    for (const int servers : {2, 4, 16}) {
        const double traffic = 0.8 * servers;
        const auto simulation = simulate(
            machine(TimeDistribution::exponential(1), 1, static_cast<std::size_t>(servers)), arrivals(traffic));
        const auto& queue = column(simulation, "queue");
        const double wait_probability = erlang_c(servers, traffic);
        const double rate = servers - traffic;
        const std::string what = std::to_string(servers) + " servers";
        const auto waited = std::ranges::count_if(queue, [](double wait) { return wait > 0; });
        EXPECT_NEAR(static_cast<double>(waited) / static_cast<double>(queue.size()), wait_probability, 0.01) << what;
        expect_close(mean_of(queue), wait_probability / rate, 0.04, what + ", mean wait");
        // P(W > t) = C exp(-(c mu - lambda) t)
        expect_close(quantile_of(queue, 0.99), std::log(wait_probability / 0.01) / rate, 0.05, what + ", p99 wait");
    }
}

TEST(Queues, BatchServiceWithoutWaiting) {
    // M/M(1,b)/1: whoever waits, up to b, is served together in an exponential time; later ones wait for the next
    // batch. With r the root in (0, 1) of mu r^(b+1) - (lambda + mu) r + lambda = 0, the busy server sees n waiting
    // with probability C r^n, is idle with (mu / lambda) C (Medhi, Stochastic Models in Queueing Theory, 4.3), and the
    // wait of who finds it busy is a geometric sum of exponential times: P(W > t) = C / (1 - r) exp(-mu (1 - r^b) t).
    for (const int b : {2, 8}) {
        for (const double load : {0.4, 0.8}) {
            const double lambda = load * b;
            double low = 0;
            double high = 1 - 1e-9; // 1 is a root as well
            for (int i = 0; i < 200; ++i) {
                const double r = (low + high) / 2;
                (std::pow(r, b + 1) - (lambda + 1) * r + lambda > 0 ? low : high) = r;
            }
            const double r = low;
            const double c = 1 / (1 / (1 - r) + 1 / lambda);
            const auto simulation =
                simulate(machine(TimeDistribution::exponential(1), static_cast<std::size_t>(b)), arrivals(lambda));
            const auto& queue = column(simulation, "queue");
            const std::string what = "b " + std::to_string(b) + ", load " + std::to_string(load);
            expect_close(mean_of(queue), c * r / ((1 - r) * (1 - r)) / lambda, 0.03, what + ", mean wait");
            expect_close(quantile_of(queue, 0.99), std::log(c / (1 - r) / 0.01) / (1 - std::pow(r, b)), 0.04,
                         what + ", p99 wait");
            const double served_alone = 1 / lambda * c; // idle
            EXPECT_NEAR(simulation.utilisation, 1 - served_alone, 0.01) << what;
        }
    }
}

TEST(Queues, WaitingForABatchAtLowAndHighRates) {
    // So few requests that they meet nobody: each waits out the time limit.
    const auto lonely = simulate(machine(TimeDistribution::fixed(2), 8, 1, 5), arrivals(1e-4, 2000));
    EXPECT_NEAR(quantile_of(lonely.total, 0.9), 7, 1e-9);
    // So many that batches fill at once: all run full, one after another.
    const MachineModel full = machine(TimeDistribution::fixed(2), 8, 1, 1000);
    const auto crowded = simulate(full, arrivals(3.6, 200'000));
    EXPECT_NEAR(crowded.mean_batch, 8, 1e-3);
    EXPECT_NEAR(crowded.utilisation, 3.6 / 4, 0.01);
    EXPECT_NEAR(full.capacity(), 4000, 1e-9);
    // Filling up: a batch of two from a Poisson process of rate 1/2, never busy for long: the first waits for the
    // second.
    const auto pairs = simulate(machine(TimeDistribution::fixed(0.001), 2, 1, 1e6), arrivals(0.5, 200'000));
    expect_close(mean_of(pairs.total), 0.001 + 1.0, 0.02, "half of them wait 2 ms, the other half not");
}

TEST(Queues, TheFirstOfABusyTimeTakesLonger) {
    // Welch (Operations Research 12, 1964): with service B0 for who finds nobody and B for others, the mean wait is
    // lambda E[B^2] / (2 (1 - lambda E[B])) + lambda (E[B0^2] - E[B^2]) / (2 (1 - lambda (E[B] - E[B0]))).
    for (const double first : {0.5, 1.5, 4.0}) {
        for (const double lambda : {0.3, 0.8}) {
            MachineModel model = machine(TimeDistribution::fixed(1));
            model.batches[0].after_pause = TimeDistribution::fixed(first);
            model.batches[0].pause_ms = 1e-6;
            const auto simulation = simulate(model, arrivals(lambda));
            const double wait =
                lambda / (2 * (1 - lambda)) + lambda * (first * first - 1) / (2 * (1 - lambda * (1 - first)));
            expect_close(mean_of(column(simulation, "queue")), wait, 0.03,
                         "first " + std::to_string(first) + ", rate " + std::to_string(lambda));
        }
    }
}

TEST(Queues, PausesAndOtherSizesCostTheirShare) {
    MachineModel model = machine(TimeDistribution::fixed(10), 2);
    for (BatchTime& batch : model.batches) {
        batch.after_pause = TimeDistribution::fixed(14);
        batch.pause_ms = 8;
        batch.after_other_size = TimeDistribution::fixed(11);
    }
    // One alone, after a change and a pause of 20; two that came meanwhile, after a change; two more at once, as the
    // former; one after a pause of 2, a quarter of 8, and a change; one after a long pause, as the former.
    const std::vector<double> arrivals{20, 21, 22, 36, 37, 58, 200};
    const auto simulation = simulate(model, arrivals, 0);
    const std::vector<double> ends{35, 46, 46, 56, 56, 70, 214};
    for (std::size_t i = 0; i < ends.size(); ++i)
        EXPECT_NEAR(arrivals[i] + simulation.total[i], ends[i], 1e-9) << i;
}

TEST(Queues, StagesInARow) {
    // Two stations with exponential times in a row are two M/M/1 queues (Burke's theorem).
    MachineModel model = machine(TimeDistribution::exponential(1));
    model.before.push_back({"decode", TimeDistribution::exponential(0.5), 1});
    model.before.push_back({"network", TimeDistribution::exponential(3), std::nullopt});
    model.after.push_back({"postprocess", TimeDistribution::exponential(1), 2});
    const auto simulation = simulate(model, arrivals(0.7));
    expect_close(mean_of(column(simulation, "decode")), 1 / (2 - 0.7), 0.02, "M/M/1");
    expect_close(mean_of(column(simulation, "network")), 3, 0.01, "a delay alone");
    expect_close(mean_of(column(simulation, "queue")), 1 / (1 - 0.7) - 1, 0.03, "M/M/1");
    expect_close(mean_of(column(simulation, "postprocess")), 1 + erlang_c(2, 0.7) / (2 - 0.7), 0.02, "M/M/2");
    double sum = 0;
    for (const auto& spent : simulation.spent)
        sum += mean_of(spent);
    EXPECT_NEAR(mean_of(simulation.total), sum, 1e-6);
    EXPECT_NEAR(model.capacity(), 1000, 1) << "compute is the slowest";
    model.before[0].workers = std::nullopt;
    model.after[0].time = TimeDistribution::fixed(4);
    EXPECT_NEAR(model.capacity(), 500, 1e-6);
}

TEST(Queues, TotalsAloneAreTheSame) {
    MachineModel model = machine(TimeDistribution::lognormal(1, 3), 4, 2, 0.5);
    model.before.push_back({"hop", TimeDistribution::exponential(1), std::nullopt});
    const auto times = arrivals(3, 10'000);
    EXPECT_EQ(simulate(model, times).total, simulate_totals(model, times));
}

TEST(TimeDistributions, KeepWhatTheyWereMadeFrom) {
    const TimeDistribution::Quantiles measured{1, 2, 3, 4, 6, 60, 2.25};
    const auto distribution = TimeDistribution::of_quantiles(measured);
    EXPECT_NEAR(distribution.quantile(0.5), 2, 0.01);
    EXPECT_NEAR(distribution.quantile(0.9), 3, 0.01);
    EXPECT_NEAR(distribution.quantile(0.95), 4, 0.02);
    EXPECT_NEAR(distribution.quantile(0.99), 6, 0.05);
    EXPECT_NEAR(distribution.mean(), 2.25, 0.01) << "the outlier of 60 is one of many calls above p99";
    const auto lognormal = TimeDistribution::lognormal(2, 5);
    EXPECT_NEAR(lognormal.quantile(0.5), 2, 0.01);
    EXPECT_NEAR(lognormal.quantile(0.99), 5, 0.05);
    EXPECT_NEAR(TimeDistribution::exponential(3).mean(), 3, 0.01);
    const auto observed = TimeDistribution::of_samples({5, 1, 3});
    EXPECT_NEAR(observed.quantile(0.5), 3, 0.01);
    EXPECT_NEAR(observed.scaled(2).mean(), 2 * observed.mean(), 1e-9);
    EXPECT_NEAR(observed.mixed(TimeDistribution::fixed(1), 0.25).mean(), 0.75 * observed.mean() + 0.25, 1e-9);
}

} // namespace
} // namespace lathe::test
