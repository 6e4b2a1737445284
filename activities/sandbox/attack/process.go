//go:build linux

package attack

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// process is one that the host sees. Its pidfd makes sure that it is killed and
// not one that has its number by now.
type process struct{ pid int }

// tokenProcesses are the processes with token in their arguments, but not this one.
func tokenProcesses(token string) []process {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	var found []process
	for _, dir := range dirs {
		line, err := os.ReadFile(dir + "/cmdline")
		pid, bad := strconv.Atoi(filepath.Base(dir))
		if err == nil && bad == nil && pid != os.Getpid() && bytes.Contains(line, []byte(token)) {
			found = append(found, process{pid})
		}
	}
	return found
}

func (p process) kill() {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
}

// status is a number from /proc/PID/status, such as VmRSS in KiB; 0 if it is gone.
func (p process) status(key string) int64 {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/status")
	if err != nil {
		return 0
	}
	return number(data, key)
}

// number is the number of a line "key:  number kB".
func number(data []byte, key string) int64 {
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, key+":"); ok {
			if fields := strings.Fields(rest); len(fields) > 0 {
				n, _ := strconv.ParseInt(fields[0], 10, 64)
				return n
			}
		}
	}
	return 0
}

// ticks is the processor time that the process has used, in clock ticks (of 10 ms
// on every Linux that Go runs on).
func (p process) ticks() int64 {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/stat")
	if err != nil {
		return 0
	}
	// The name in parentheses may contain anything; utime and stime are the 12th
	// and 13th field behind it.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return user + system
}

// meminfo is a number of /proc/meminfo in bytes.
func meminfo(key string) int64 {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	return number(data, key) << 10
}
