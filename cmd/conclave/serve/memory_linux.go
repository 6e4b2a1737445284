package serve

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// dropProgram releases the resident pages of the executable. Starting touches most of them to
// initialize the packages of every command. Serving needs a quarter of them, which the system
// maps again on access. An error leaves the pages resident.
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

// mapping is a region of the address space.
type mapping struct{ start, end uintptr }

// unchanged returns the mappings in an smaps table whose content is that of a file. It
// excludes writable mappings and those with private pages, such as relocated ones.
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
