// bench: measures all-reduces.
//
//   bench_allreduce MEMBERS FLOATS ROUNDS [tcp]            all members, on this host
//   bench_allreduce join RANK ADDRESS,... FLOATS ROUNDS SECRET    one member; addresses of all, by
//                                                          rank; equal hosts share memory
//
// Members are processes of this program. Prints, in microseconds: the sum alone (Reduce and Wait),
// a whole round with Conclude, and beside them the direct loop: threads that read all partials of
// their slice and write all results, with a spinning barrier and nothing else.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "everstep/base/float_environment.h"
#include "everstep/base/status.h"
#include "everstep/collective/add.h"
#include "everstep/collective/endpoint.h"
#include "everstep/env/clock.h"
#include "everstep/env/environment.h"
#include "everstep/env/process.h"
#include "everstep/env/shared_memory.h"
#include "everstep/env/socket.h"

namespace everstep {
namespace {

Deadline Soon() { return After(RealClock(), std::chrono::seconds(60)); }

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double MicrosecondsSince(TimePoint begin) { return ToSeconds(RealClock().Now() - begin) * 1e6; }

void Say(int socket, const std::string& line) {
  const std::string text = line + "\n";
  SendAll(socket, {reinterpret_cast<const std::byte*>(text.data()), text.size()}, Soon())
      .IgnoreError();
}

std::string Hear(int socket) {
  std::string line;
  std::byte c;
  while (ReceiveAll(socket, absl::MakeSpan(&c, 1), Soon()).ok() && c != std::byte{'\n'}) {
    line.push_back(static_cast<char>(c));
  }
  return line;
}

// One replica each. Members whose hosts are equal share memory.
View ViewOf(const std::vector<std::string>& addresses, const std::vector<std::string>& hosts) {
  View view;
  view.id = {1, 1};
  view.num_replicas = static_cast<int>(addresses.size());
  for (int r = 0; r < view.num_replicas; ++r) {
    Member m;
    m.task = {"worker", r};
    m.incarnation = 1 + static_cast<uint64_t>(r);
    m.host = hosts[r];
    m.data_address = addresses[r];
    m.replica_begin = r;
    m.replica_end = r + 1;
    view.members.push_back(m);
  }
  return view;
}

absl::Status Measure(Communicator& c, int64_t floats, int rounds) {
  for (int64_t i = 0; i < floats; ++i) c.partial(0)[i] = static_cast<float>(i % 7 + c.rank());
  const std::vector<Part> parts = {
      {{c.rank(), c.rank() + 1}, c.partial(0).subspan(0, static_cast<size_t>(floats))}};
  std::vector<double> sums, whole;
  for (Round round = 0; round < rounds + 3; ++round) {
    const TimePoint begin = RealClock().Now();
    EV_ASSIGN_OR_RETURN(const Ticket ticket, c.Reduce(round, 0, parts, Soon()));
    EV_RETURN_IF_ERROR(c.Wait(ticket, Soon()));
    const double sum = MicrosecondsSince(begin);
    EV_RETURN_IF_ERROR(c.Conclude(round, {}, Soon()).status());
    if (round < 3) continue;  // pages are touched for the first time
    sums.push_back(sum);
    whole.push_back(MicrosecondsSince(begin));
  }
  if (c.rank() == 0) {
    std::printf("sum %.1f us, round %.1f us", MedianOf(sums), MedianOf(whole));
  }
  return absl::OkStatus();
}

int Finish(Endpoint& endpoint, const View& view, int rank, int64_t floats, int rounds) {
  auto c = endpoint.Connect(view, 1 + static_cast<uint64_t>(rank), Soon());
  const absl::Status status = c.ok() ? Measure(**c, floats, rounds) : c.status();
  if (!status.ok()) std::fprintf(stderr, "rank %d: %s\n", rank, status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

// argv: member RANK MEMBERS FLOATS ROUNDS KIND SECRET
int RunMember(char** argv) {
  SetFloatEnvironment();
  const int rank = std::stoi(argv[2]), members = std::stoi(argv[3]);
  EndpointOptions options;
  options.incarnation = 1 + static_cast<uint64_t>(rank);
  options.first_port = options.last_port = 0;
  auto endpoint = Endpoint::Make(JobSecret::FromHex(argv[7]).value(), options).value();
  if (!endpoint->Prepare({{std::stoll(argv[4])}, 1}).ok()) return 1;
  Say(3, endpoint->data_address());
  std::istringstream line(Hear(3));
  std::vector<std::string> addresses(members), hosts;
  for (int r = 0; r < members; ++r) {
    line >> addresses[r];
    hosts.push_back(std::string(argv[6]) == "tcp" ? std::to_string(r) : "here");
  }
  return Finish(*endpoint, ViewOf(addresses, hosts), rank, std::stoll(argv[4]), std::stoi(argv[5]));
}

// argv: join RANK ADDRESSES FLOATS ROUNDS SECRET
int Join(char** argv) {
  SetFloatEnvironment();
  const int rank = std::stoi(argv[2]);
  std::vector<std::string> addresses, hosts;
  std::istringstream list(argv[3]);
  for (std::string address; std::getline(list, address, ',');) {
    hosts.push_back(HostPort::Parse(address).value().host);
    addresses.push_back(address);
  }
  const HostPort own = HostPort::Parse(addresses.at(rank)).value();
  EndpointOptions options;
  options.incarnation = 1 + static_cast<uint64_t>(rank);
  options.listen_host = own.host;
  options.first_port = options.last_port = own.port;
  auto endpoint = Endpoint::Make(JobSecret::FromHex(argv[6]).value(), options);
  if (!endpoint.ok() || !(*endpoint)->Prepare({{std::stoll(argv[4])}, 1}).ok()) {
    std::fprintf(stderr, "%s\n", endpoint.status().ToString().c_str());
    return 1;
  }
  const int code =
      Finish(**endpoint, ViewOf(addresses, hosts), rank, std::stoll(argv[4]), std::stoi(argv[5]));
  if (rank == 0) std::printf("\n");
  return code;
}

// What the machine can do: every thread adds its slice of all inputs and writes it to all outputs.
double DirectLoop(int members, int64_t floats, int rounds) {
  const size_t bytes = static_cast<size_t>(floats) * sizeof(float);
  std::vector<SharedMapping> in, out;
  for (int r = 0; r < members; ++r) {
    for (auto* list : {&in, &out}) {
      const UniqueFd fd = CreateSharedMemory("everstep-bench", bytes).value();
      list->push_back(SharedMapping::Map(fd.get(), bytes).value());
    }
  }
  const auto at = [](const SharedMapping& m) { return reinterpret_cast<float*>(m.data()); };
  std::atomic<int64_t> arrived{0};
  const auto barrier = [&](int64_t target) {
    arrived.fetch_add(1);
    while (arrived.load() < target) std::this_thread::yield();
  };
  std::vector<double> times;
  std::vector<std::thread> threads;
  for (int r = 0; r < members; ++r) {
    threads.emplace_back([&, r] {
      SetFloatEnvironment();
      const int64_t begin = floats * r / members, end = floats * (r + 1) / members;
      for (int round = 0; round < rounds + 3; ++round) {
        const TimePoint start = RealClock().Now();
        barrier(int64_t{members} * (2 * round + 1));
        for (int64_t i = begin; i < end; i += 4096) {
          const int64_t n = std::min<int64_t>(4096, end - i);
          float* first = at(out[0]) + i;
          if (members == 1) std::copy_n(at(in[0]) + i, n, first);
          if (members > 1) Add(first, at(in[0]) + i, at(in[1]) + i, n);
          for (int m = 2; m < members; ++m) AddInto(first, at(in[m]) + i, n);
          for (int m = 1; m < members; ++m) std::copy_n(first, n, at(out[m]) + i);
        }
        barrier(int64_t{members} * (2 * round + 2));
        if (r == 0 && round >= 3) times.push_back(MicrosecondsSince(start));
      }
    });
  }
  for (std::thread& t : threads) t.join();
  return MedianOf(times);
}

int Run(int members, const std::string& floats, const std::string& rounds,
        const std::string& kind) {
  const std::string secret = JobSecret::Generate().ToHexForFile();
  std::vector<Process> processes;
  std::vector<UniqueFd> lines;
  std::string addresses;
  for (int r = 0; r < members; ++r) {
    auto pair = MakeSocketPair().value();
    SpawnOptions options;
    options.argv = {
        ProgramPath(), "member", std::to_string(r), std::to_string(members), floats, rounds,
        kind,          secret};
    options.environment = CurrentEnvironment();
    options.descriptors = {{pair.second.get(), 3}};
    processes.push_back(Process::Spawn(options).value());
    lines.push_back(std::move(pair.first));
  }
  for (const UniqueFd& line : lines) addresses += Hear(line.get()) + " ";
  for (const UniqueFd& line : lines) Say(line.get(), addresses);
  bool ok = true;
  for (Process& p : processes) ok = p.Wait(Deadline::max()) == std::optional<int>(0) && ok;
  const double direct = DirectLoop(members, std::stoll(floats), std::stoi(rounds));
  std::printf(", direct loop %.1f us (%d members, %s floats, %s)\n", direct, members,
              floats.c_str(), kind.c_str());
  return ok ? 0 : 1;
}

}  // namespace
}  // namespace everstep

int main(int argc, char** argv) {
  if (argc == 8 && std::string(argv[1]) == "member") return everstep::RunMember(argv);
  if (argc == 7 && std::string(argv[1]) == "join") return everstep::Join(argv);
  if (argc < 4 || argc > 5) {
    std::fprintf(stderr,
                 "usage: bench_allreduce MEMBERS FLOATS ROUNDS [tcp]\n"
                 "       bench_allreduce join RANK ADDRESS,... FLOATS ROUNDS SECRET\n");
    return 2;
  }
  return everstep::Run(std::stoi(argv[1]), argv[2], argv[3], argc == 5 ? argv[4] : "shm");
}
