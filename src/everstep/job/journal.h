// job: Journal, where a coordinator puts its job's records and status, and the lease it decides by.
#pragma once

#include <cstdint>

#include "everstep/job/record.h"
#include "everstep/job/status.h"

namespace everstep {

// Any thread; never blocks: writing is done behind it. Records go to disk in the order they are
// given; of statuses only the newest matters.
class Journal {
 public:
  virtual ~Journal() = default;

  virtual void Record(JobRecord record) = 0;
  virtual void Publish(JobStatus status) = 0;

  virtual int64_t durable() const = 0;  // how many of the records given to Record are on disk
  // False: the term file could not be renewed for 3 s; whoever decides must not until it is true.
  virtual bool lease_held() const = 0;
  // Another run holds a higher term: this job must end (75). Never becomes false again.
  virtual bool superseded() const = 0;
};

}  // namespace everstep
