// collective: cells in memfds.
#include "everstep/collective/cells.h"

#include <new>
#include <utility>

#include "everstep/base/status.h"
#include "everstep/env/environment.h"
#include "everstep/env/poll.h"
#include "everstep/env/shared_memory.h"

namespace everstep {
namespace {

absl::StatusOr<std::shared_ptr<CellPage>> MapPage(int fd) {
  EV_ASSIGN_OR_RETURN(SharedMapping mapping, SharedMapping::Map(fd, PageBytes()));
  auto owner = std::make_shared<SharedMapping>(std::move(mapping));
  // A memfd begins as zero bytes, which are atomics that hold 0.
  return std::shared_ptr<CellPage>(owner, reinterpret_cast<CellPage*>(owner->data()));
}

}  // namespace

absl::StatusOr<OwnCells> MakeCells() {
  OwnCells cells;
  EV_ASSIGN_OR_RETURN(cells.fd, CreateSharedMemory("everstep-cells", PageBytes()));
  EV_ASSIGN_OR_RETURN(cells.page, MapPage(cells.fd.get()));
  cells.page->processors = AllowedProcessors();
  return cells;
}

absl::StatusOr<std::shared_ptr<CellPage>> MapCells(UniqueFd fd) { return MapPage(fd.get()); }

void Ring(CellPage& page, int wake_fd) noexcept {
  const uint32_t asleep = page.asleep.load();
  if (asleep == kAwake) return;
  page.bell.fetch_add(1);
  if (asleep == kOnFutex) {
    FutexWakeAll(page.bell);
  } else {
    SignalEventFd(wake_fd);
  }
}

int CountProcessors(const std::vector<const CellPage*>& pages) {
  int count = 0;
  for (size_t word = 0; word < 16; ++word) {
    uint64_t any = 0;
    for (const CellPage* page : pages) any |= page->processors[word];
    count += __builtin_popcountll(any);
  }
  return count;
}

}  // namespace everstep
