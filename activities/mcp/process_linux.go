package mcp

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// sysAttributes starts the program in its own session, and makes Linux kill it when the worker ends.
func sysAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

func (p *process) terminate() { _ = syscall.Kill(-p.pid, syscall.SIGTERM) }

func (p *process) kill() { _ = syscall.Kill(-p.pid, syscall.SIGKILL) }

// relative is a process that a server started, identified by its number and start time.
type relative struct {
	pid, parent, session int
	start                string
	zombie               bool
}

// familyMembers returns the processes of the program's session, the processes with its mark, and the
// descendants of both.
func (p *process) familyMembers() map[int]relative {
	all := make(map[int]relative)
	members := make(map[int]relative)
	entries, _ := filepath.Glob("/proc/[0-9]*")
	for _, entry := range entries {
		r, ok := readStat(entry)
		if !ok || r.pid == os.Getpid() {
			continue
		}
		all[r.pid] = r
		environ, _ := os.ReadFile(entry + "/environ")
		if r.session == p.pid || bytes.Contains(append([]byte{0}, environ...), []byte("\x00"+markName+"="+p.mark+"\x00")) {
			members[r.pid] = r
		}
	}
	for grown := true; grown; {
		grown = false
		for pid, r := range all {
			_, member := members[pid]
			_, child := members[r.parent]
			if !member && (child || r.parent == p.pid && !p.hasExited()) {
				members[pid], grown = r, true
			}
		}
	}
	delete(members, p.pid)
	return members
}

func (p *process) hasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// readStat parses /proc/<pid>/stat. It counts fields from the end of the process name, which may
// contain spaces.
func readStat(entry string) (relative, bool) {
	data, err := os.ReadFile(entry + "/stat")
	if err != nil {
		return relative{}, false
	}
	line := string(data)
	fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
	if len(fields) < 20 {
		return relative{}, false
	}
	r := relative{start: fields[19], zombie: fields[0] == "Z" || fields[0] == "X"}
	r.pid, _ = strconv.Atoi(filepath.Base(entry))
	r.parent, _ = strconv.Atoi(fields[1])
	r.session, _ = strconv.Atoi(fields[3])
	return r, true
}

// sweepFamily kills the program's family, including its earlier members, until none is left, and reaps
// the orphans that became children of the worker.
func (p *process) sweepFamily(before map[int]relative) {
	for deadline := time.Now().Add(killGrace); ; {
		alive := 0
		for pid, r := range p.remainingMembers(before) {
			if !r.zombie {
				alive++
				killExactly(r)
			}
			if r.parent == os.Getpid() {
				_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
			}
			before[pid] = r
		}
		if alive == 0 || time.Now().After(deadline) {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (p *process) remainingMembers(before map[int]relative) map[int]relative {
	now := p.familyMembers()
	for pid, was := range before {
		if r, ok := readStat("/proc/" + strconv.Itoa(pid)); ok && r.start == was.start {
			now[pid] = r
		}
	}
	return now
}

// killExactly kills a process through a handle, after checking that its number has not been reused.
func killExactly(r relative) {
	handle, err := os.FindProcess(r.pid)
	if err != nil {
		return
	}
	if now, ok := readStat("/proc/" + strconv.Itoa(r.pid)); ok && now.start == r.start {
		_ = handle.Kill()
	}
	_ = handle.Release()
}
