package serve

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// dropProgram releases the resident pages of the program's file. The start touches most of them,
// since it initializes the packages of every command; serving needs a quarter, which the system
// maps again when they are used. An error leaves them resident.
func dropProgram() {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	table, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return
	}
	for _, m := range unchanged(string(table), program) {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start, unix.MADV_DONTNEED)
	}
}

// mapping is a part of the address space.
type mapping struct{ start, end uintptr }

// unchanged returns the mappings in a table of smaps that have the content of a file. Writable
// mappings, and those with pages of their own, such as relocated ones, do not.
func unchanged(table, file string) (found []mapping) {
	var last *mapping // the mapping to which a line belongs; nil if it does not count
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0:
		case !strings.HasSuffix(fields[0], ":"):
			if last = parseMapping(fields); last != nil && (strings.Contains(fields[1], "w") || !strings.HasSuffix(line, " "+file+"\n")) {
				last = nil
			}
		case fields[0] == "Anonymous:" && last != nil && fields[1] == "0":
			found = append(found, *last)
		}
	}
	return found
}

// parseMapping parses the first line of a mapping: START-END PERMISSIONS OFFSET DEVICE INODE FILE.
func parseMapping(fields []string) *mapping {
	const least = 6
	from, to, ok := strings.Cut(fields[0], "-")
	if !ok || len(fields) < least {
		return nil
	}
	start, err := strconv.ParseUint(from, 16, strconv.IntSize)
	if err != nil {
		return nil
	}
	end, err := strconv.ParseUint(to, 16, strconv.IntSize)
	if err != nil || end < start {
		return nil
	}
	return &mapping{uintptr(start), uintptr(end)}
}
