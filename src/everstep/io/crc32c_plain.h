// io: CRC-32C without a library, for the static command: ISA-L has no archive. Same meaning as
// ExtendCrc32c of crc32c.h, which is what everybody calls. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace everstep {

// By the processor's instruction where it has one, else by tables: 8 and 2 GB/s a core.
uint32_t ExtendCrc32cPlain(uint32_t crc, const void* data, size_t size);

// The two ways, for tests. The first may be called only where HasCrc32cInstruction().
bool HasCrc32cInstruction();
uint32_t ExtendCrc32cByInstruction(uint32_t crc, const void* data, size_t size);
uint32_t ExtendCrc32cByTables(uint32_t crc, const void* data, size_t size);

}  // namespace everstep
