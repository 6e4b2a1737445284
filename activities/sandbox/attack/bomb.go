//go:build linux

package attack

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"conclave/activities/sandbox"
)

// Bombs are many times as big as what the limits allow, and harmless to a host
// that has no limits. They count as open when most of what they take was there at
// the same time: what watches them needs a moment, up to a second for a disk. So
// they are slow, too, or it would depend on the host's speed what is seen.
const (
	manyProcesses  = 800
	seenProcesses  = 400
	bigMemory      = 1 << 30
	seenMemory     = 900 << 20
	bigDisk        = 1 << 30
	seenDisk       = 512 << 20
	manyFiles      = 60_000
	seenFiles      = 50_000
	bigOutput      = 256 << 20
	spareMemory    = 3 << 30
	spareDisk      = 4 << 30
	spareProcesses = 2 * manyProcesses
)

// bombs are attacks on processes, processor time and output.
func bombs() []attack {
	return []attack{
		{
			name: "forkbomb", what: fmt.Sprintf("start %d processes", manyProcesses), plant: plantProcesses, try: forkBomb,
			during: func(s *scene) { s.saw(int64(len(tokenProcesses(s.target.Token)))) },
			worked: atLeast(seenProcesses, "processes at a time"), fatal: true,
		},
		{
			name: "threadbomb", what: fmt.Sprintf("start %d threads in one process", manyProcesses), plant: plantProcesses, try: threadBomb,
			during: func(s *scene) {
				var threads int64
				for _, p := range tokenProcesses(s.target.Token) {
					threads += p.status("Threads")
				}
				s.saw(threads)
			},
			worked: atLeast(seenProcesses, "threads at a time"), fatal: true,
		},
		{
			name: "cpu", what: "use more processor time than allowed, with four processes of which each stays below the limit",
			limits: func(l *sandbox.Limits) { l.CPU = time.Second },
			try: func(t target) (string, error) {
				for range 4 {
					if _, err := spawn(nil, "spin", "0.9", t.Token); err != nil {
						return "", err
					}
				}
				time.Sleep(8 * time.Second)
				return "", nil
			},
			during: func(s *scene) {
				var ticks int64
				for _, p := range tokenProcesses(s.target.Token) {
					ticks += p.ticks()
				}
				s.saw(ticks)
			},
			worked: atLeast(300, "hundredths of a second, with a limit of 100"), fatal: true,
		},
		{
			name: "flood", what: fmt.Sprintf("write %d MiB of output", bigOutput>>20), try: flood,
			during: func(s *scene) { s.saw(process{s.worker.Process.Pid}.status("VmRSS") << 10) },
			worked: func(s *scene, t trial) string {
				if t.Bytes > 4*s.limits.Output {
					return fmt.Sprintf("%d bytes reached the worker, with a limit of %d", t.Bytes, s.limits.Output)
				}
				return atLeast(800<<20, "bytes of the worker's memory")(s, t)
			},
			fatal: true,
		},
	}
}

// saw keeps the most that was seen.
func (s *scene) saw(n int64) { s.peak = max(s.peak, n-s.before) }

// atLeast is open if that much was seen.
func atLeast(n int64, of string) func(*scene, trial) string {
	return func(s *scene, _ trial) string {
		if s.peak >= n {
			return fmt.Sprintf("the host saw %d %s", s.peak, of)
		}
		return ""
	}
}

func plantProcesses(*scene) error {
	var most unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &most); err != nil {
		return err
	}
	if os.Geteuid() != 0 && most.Cur < spareProcesses {
		return skip("this user may have only %d processes anyway", most.Cur)
	}
	return plantMemory(nil)
}

// plantMemory is for attacks that take memory.
func plantMemory(*scene) error {
	if free := meminfo("MemAvailable"); free < spareMemory {
		return skip("this host has only %d MiB of memory to spare, and %d are needed", free>>20, spareMemory>>20)
	}
	return nil
}

// forkBomb starts processes that sleep; their token is in their first argument.
func forkBomb(t target) (string, error) {
	path, err := exec.LookPath("sleep")
	if err != nil {
		return "", err
	}
	failed := 0
	for n := 0; n < manyProcesses && failed < 100; n++ {
		cmd := &exec.Cmd{Path: path, Args: []string{"sleep-" + t.Token, "20"}}
		if err = cmd.Start(); err != nil {
			failed++
			time.Sleep(5 * time.Millisecond) // some may end
		}
		if n%4 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	time.Sleep(200 * time.Millisecond)
	return "", err
}

// threadBomb starts threads that sleep.
func threadBomb(target) (string, error) {
	for range manyProcesses {
		go func() {
			runtime.LockOSThread()
			_ = unix.Nanosleep(&unix.Timespec{Sec: 20}, nil) // to the end of the process
		}()
	}
	time.Sleep(1500 * time.Millisecond)
	return "", nil
}

// spin uses processor time, in seconds of it.
func spin(args []string) error {
	if len(args) < 1 {
		return errors.New("spinning takes a number of seconds")
	}
	most, err := time.ParseDuration(args[0] + "s")
	if err != nil {
		return err
	}
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		var used unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
			return err
		}
		if time.Duration(used.Utime.Nano()+used.Stime.Nano()) >= most {
			break
		}
	}
	time.Sleep(10 * time.Second) // to be counted
	return nil
}

func flood(target) (string, error) {
	line := bytes.Repeat([]byte("0123456789abcdef"), 4096)
	for written := 0; written < bigOutput; {
		n, err := os.Stdout.Write(line)
		if err != nil {
			return "", err
		}
		written += n
	}
	return "", nil
}
