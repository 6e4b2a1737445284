package attack

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"conclave/activities/sandbox"
)

const bigOutput = 256 << 20

// processBombs are further attacks on processes, processor time and output.
func processBombs() []attack {
	return []attack{
		{
			name: "threadbomb", what: fmt.Sprintf("start %d threads in one process", manyProcesses),
			setup: setupProcesses, try: threadBomb, proof: atLeast(seenProcesses, "threads at a time"), fatal: true,
			observe: func(s *scene) {
				var threads int64
				for _, pid := range processesWith(s.target.Token) {
					threads += readNumber(fmt.Sprintf("/proc/%d/status", pid), "Threads")
				}
				s.recordPeak(threads)
			},
		},
		{
			name: "cpu", what: "use more processor time than allowed, with four processes of which each stays below the limit",
			limits: func(l *sandbox.Limits) { l.CPU = time.Second },
			try: func(t target) (string, error) {
				for range 4 {
					if _, err := startDaemon("spin", "0.9", t.Token); err != nil {
						return "", err
					}
				}
				time.Sleep(8 * time.Second)
				return "", nil
			},
			observe: func(s *scene) {
				var sum int64
				for _, pid := range processesWith(s.target.Token) {
					sum += ticks(pid)
				}
				s.recordPeak(sum)
			},
			proof: atLeast(300, "hundredths of a second, with a limit of 100"), fatal: true,
		},
		{
			name: "flood", what: fmt.Sprintf("write %d MiB of output", bigOutput>>20), try: flood, fatal: true,
			observe: func(s *scene) {
				s.recordPeak(readNumber(fmt.Sprintf("/proc/%d/status", s.worker.Process.Pid), "VmRSS") << 10)
			},
			proof: func(s *scene, t trial) string {
				if t.Bytes > 4*s.limits.Output {
					return fmt.Sprintf("%d bytes reached the worker, with a limit of %d", t.Bytes, s.limits.Output)
				}
				return atLeast(800<<20, "bytes of the worker's memory")(s, t)
			},
		},
	}
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

// spin uses processor time for the given number of seconds.
func spin(args []string) error {
	if len(args) < 1 {
		return errors.New("spinning takes a number of seconds")
	}
	limit, err := time.ParseDuration(args[0] + "s")
	if err != nil {
		return err
	}
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		var used unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
			return err
		}
		if time.Duration(used.Utime.Nano()+used.Stime.Nano()) >= limit {
			break
		}
	}
	time.Sleep(10 * time.Second) // to be counted
	return nil
}

// ticks returns the processor time of a process in clock ticks, which are 10 ms on every Linux that Go runs on.
func ticks(pid int) int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name in parentheses may contain anything; utime and stime are the 12th and 13th field behind it.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return user + system
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

// memoryBombs are further attacks on the host's memory.
func memoryBombs() []attack {
	multi := attack{
		name: "mem_multi", what: "use 1.3 GiB of memory in nine processes of which each stays below the limit",
		setup: setupMemory, observe: measureResident, proof: atLeast(seenMemory, "bytes at a time"), fatal: true,
		limits: func(l *sandbox.Limits) { l.Processes = 1000 },
		try: func(t target) (string, error) {
			for range 9 {
				if _, err := startDaemon("hog", strconv.Itoa(150<<20), t.Token); err != nil {
					return "", err
				}
			}
			time.Sleep(5 * time.Second)
			return "", nil
		},
	}
	return []attack{
		multi,
		sharedBomb("mem_shared", "use 1 GiB of shared memory in one process", nil, mapShared),
		sharedBomb("mem_memfd", "keep 1 GiB in memory files that no process has mapped and no directory has", nil, fillMemoryFiles),
		sharedBomb("mem_sysv", "keep 1 GiB in System V shared memory segments that no process has mapped", setupSegments, fillSegments),
		sharedBomb("mem_tmpfs", "keep 1 GiB in files that lie in memory, in /tmp and /dev/shm", nil, func(t target) (string, error) {
			return "", errors.Join(fillDirectory("/dev/shm", t.Token, bigMemory), fillDirectory("/tmp", t.Token, bigMemory))
		}),
	}
}

// sharedBomb is a bomb whose effect is visible in the shared memory of the host, which includes
// files in memory.
func sharedBomb(name, what string, setup func(*scene), try func(target) (string, error)) attack {
	var before int64
	return attack{
		name: name, what: what, try: try, fatal: true,
		setup: func(s *scene) error {
			before = sharedMemory()
			removeShared(s)
			if setup != nil {
				setup(s)
			}
			return setupMemory(s)
		},
		observe: func(s *scene) { s.recordPeak(sharedMemory() - before) },
		proof:   atLeast(seenMemory, "bytes of shared memory"),
	}
}

func sharedMemory() int64 { return readNumber("/proc/meminfo", "Shmem") << 10 }

// removeShared removes the attacker's files in memory at the end.
func removeShared(s *scene) {
	s.onClear(func() {
		for _, path := range append(globPaths("/dev/shm/*"+s.target.Token), globPaths("/tmp/*"+s.target.Token)...) {
			os.RemoveAll(path) //nolint:errcheck // the end of the scene
		}
	})
}

func mapShared(target) (string, error) {
	for range bigMemory >> 26 {
		data, err := unix.Mmap(-1, 0, 1<<26, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
		if err != nil {
			return "", fmt.Errorf("mmap: %w", err)
		}
		touchPages(data)
		time.Sleep(50 * time.Millisecond)
	}
	return "", nil
}

const pieces = 16

func setupSegments(s *scene) {
	first := int(time.Now().UnixNano()&0x3fffff00) | 1<<29
	s.target.Number = int64(first)
	s.onClear(func() {
		for i := range pieces {
			if id, err := unix.SysvShmGet(first+i, 0, 0); err == nil {
				_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
			}
		}
	})
}

func fillSegments(t target) (string, error) {
	for i := range pieces {
		id, err := unix.SysvShmGet(int(t.Number)+i, bigMemory/pieces, unix.IPC_CREAT|0o600)
		if err != nil {
			return "", fmt.Errorf("shmget: %w", err)
		}
		data, err := unix.SysvShmAttach(id, 0, 0)
		if err != nil {
			return "", fmt.Errorf("shmat: %w", err)
		}
		touchPages(data)
		if err := unix.SysvShmDetach(data); err != nil {
			return "", fmt.Errorf("shmdt: %w", err)
		}
	}
	time.Sleep(time.Second)
	return "", nil
}

func fillMemoryFiles(target) (string, error) {
	chunk := make([]byte, 1<<20)
	for range pieces * 2 {
		fd, err := unix.MemfdCreate("bomb", unix.MFD_CLOEXEC)
		if err != nil {
			return "", fmt.Errorf("memfd_create: %w", err)
		}
		for range bigMemory / pieces / 2 >> 20 {
			if _, err := unix.Write(fd, chunk); err != nil {
				return "", fmt.Errorf("write to a memory file: %w", err)
			}
		}
	}
	time.Sleep(time.Second)
	return "", nil
}

// hog uses memory for some seconds.
func hog(args []string) error {
	if len(args) < 1 {
		return errors.New("a hog takes a number of bytes")
	}
	n, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil {
		return err
	}
	err = useMemory(n)
	time.Sleep(5 * time.Second)
	return err
}

// diskBombs are further attacks on the host's disk.
func diskBombs() []attack {
	return []attack{
		diskBomb("disk", "write 1 GiB to one file of the workspace", func(target) (string, error) {
			f, err := os.OpenFile("bomb", os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				return "", err
			}
			return "", errors.Join(writeBytes(f, bigDisk), f.Close())
		}),
		diskBomb("disk_workspace", "write 1 GiB to files of the workspace of which each is small", func(t target) (string, error) {
			return "", fillDirectory(".", t.Token, bigDisk)
		}),
		diskBomb("disk_tmp", "write 1 GiB to files of the temporary and the home directory", func(t target) (string, error) {
			return "", errors.Join(fillDirectory(os.TempDir(), t.Token, bigDisk/2), fillDirectory(os.Getenv("HOME"), t.Token, bigDisk/2))
		}),
		freeBomb("disk_allocate", "reserve 1 GiB of the disk with fallocate, which writes nothing", reserve),
		freeBomb("disk_unlinked", "write 1 GiB to files that no directory has any more, and keep them open", func(target) (string, error) {
			return "", unlinked(func(*os.File) error { return nil })
		}),
		freeBomb("disk_mapped", "write 1 GiB to files that no directory has any more, and keep them by a map of one page", func(target) (string, error) {
			return "", unlinked(func(f *os.File) error {
				_, err := unix.Mmap(int(f.Fd()), 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_SHARED)
				return errors.Join(err, f.Close())
			})
		}),
		freeBomb("disk_sent", "write 1 GiB to files that no directory has any more, and keep them in a socket that nobody reads", func(target) (string, error) {
			return "", unlinked(func(f *os.File) error {
				pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0) // to the end of the process
				if err != nil {
					return err
				}
				return errors.Join(unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(int(f.Fd())), nil, 0), f.Close())
			})
		}),
	}
}

// diskBomb is a bomb whose effect is visible in the workspace, the temporary directory and the
// files in memory.
func diskBomb(name, what string, try func(target) (string, error)) attack {
	var before int64
	return attack{
		name: name, what: what, try: try, fatal: true,
		setup: func(s *scene) error {
			before = sharedMemory()
			removeShared(s)
			return errors.Join(setupDisk(s), setupMemory(s))
		},
		observe: func(s *scene) { s.recordPeak(bytesOnDisk(s.workspace) + bytesOnDisk(s.temp) + sharedMemory() - before) },
		proof:   atLeast(seenDisk, "bytes on disk and in files in memory"),
	}
}

// freeBomb is a bomb whose effect is visible in the free space of the disk.
func freeBomb(name, what string, try func(target) (string, error)) attack {
	var before int64
	return attack{
		name: name, what: what, try: try, fatal: true,
		setup: func(s *scene) error {
			before = freeDisk(s.base)
			return errors.Join(setupDisk(s), setupMemory(s))
		},
		observe: func(s *scene) { s.recordPeak(before - freeDisk(s.base)) },
		proof:   atLeast(seenDisk, "bytes of the disk gone"),
	}
}

func freeDisk(path string) int64 {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0
	}
	return int64(st.Bavail) * st.Bsize
}

func reserve(target) (string, error) {
	for i := range pieces * 2 {
		f, err := os.Create(fmt.Sprintf("bomb%d", i))
		if err != nil {
			return "", err
		}
		err = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, bigDisk/pieces/2)
		if err := errors.Join(err, f.Close()); err != nil {
			return "", err
		}
		time.Sleep(120 * time.Millisecond)
	}
	return "", nil
}

// unlinked creates, removes and fills files; keep holds each of them open.
func unlinked(keep func(*os.File) error) error {
	var files []*os.File
	for i := range pieces * 4 {
		f, err := os.OpenFile(fmt.Sprintf("bomb%d", i), os.O_CREATE|os.O_RDWR|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		files = append(files, f)
		if err := errors.Join(os.Remove(f.Name()), writeBytes(f, bigDisk/pieces/4), keep(f)); err != nil {
			return err
		}
	}
	time.Sleep(time.Second)
	runtime.KeepAlive(files)
	return nil
}

// fillDirectory writes n bytes to files of 16 MiB each.
func fillDirectory(dir, token string, n int64) error {
	for i := int64(0); i < n/pieceOfDisk; i++ {
		f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("bomb%d-%s", i, token)), os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		if err := errors.Join(writeBytes(f, pieceOfDisk), f.Close()); err != nil {
			return err
		}
	}
	return nil
}
