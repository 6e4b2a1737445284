//go:build linux

package attack

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"conclave/activities/sandbox"
)

// memoryBombs are attacks on the host's memory.
func memoryBombs() []attack {
	return []attack{
		{
			name: "mem10g", what: "reserve 10 GiB and use 1 GiB of it in one process", plant: plantMemory,
			try: func(target) (string, error) {
				_, reserve := unix.Mmap(-1, 0, 10<<30, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
				return "", errors.Join(reserve, use(bigMemory))
			},
			during: seeResident, worked: atLeast(seenMemory, "bytes at a time"), fatal: true,
		},
		{
			name: "mem_multi", what: "use 1.3 GiB of memory in nine processes of which each stays below the limit", plant: plantMemory,
			limits: func(l *sandbox.Limits) { l.Processes = 1000 },
			try: func(t target) (string, error) {
				for range 9 {
					if _, err := spawn(nil, "hog", strconv.Itoa(150<<20), t.Token); err != nil {
						return "", err
					}
				}
				time.Sleep(5 * time.Second)
				return "", nil
			},
			during: seeResident, worked: atLeast(seenMemory, "bytes at a time"), fatal: true,
		},
		{
			name: "mem_shared", what: "use 1 GiB of shared memory in one process", plant: plantShared,
			try: func(target) (string, error) {
				for range bigMemory >> 26 {
					data, err := unix.Mmap(-1, 0, 1<<26, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
					if err != nil {
						return "", fmt.Errorf("mmap: %w", err)
					}
					touch(data)
					time.Sleep(50 * time.Millisecond)
				}
				return "", nil
			},
			during: seeShared, worked: atLeast(seenMemory, "bytes of shared memory"), fatal: true,
		},
		{
			name: "mem_memfd", what: "keep 1 GiB in memory files that no process has mapped and no directory has", plant: plantShared,
			try: fillMemoryFiles, during: seeShared, worked: atLeast(seenMemory, "bytes of shared memory"), fatal: true,
		},
		{
			name: "mem_sysv", what: "keep 1 GiB in System V shared memory segments that no process has mapped", plant: plantSegments,
			try: fillSegments, during: seeShared, worked: atLeast(seenMemory, "bytes of shared memory"), fatal: true,
		},
		{
			name: "mem_tmpfs", what: "keep 1 GiB in files that lie in memory, in /tmp and /dev/shm", plant: plantShared,
			try: func(t target) (string, error) {
				return "", errors.Join(fill("/dev/shm", t.Token, bigMemory), fill("/tmp", t.Token, bigMemory))
			},
			during: seeShared, worked: atLeast(seenMemory, "bytes of shared memory"), fatal: true,
		},
	}
}

// seeResident adds up the memory of the attacker's processes, without their
// program, which they share.
func seeResident(s *scene) {
	var sum int64
	for _, p := range tokenProcesses(s.target.Token) {
		sum += (p.status("RssAnon") + p.status("RssShmem")) << 10
	}
	s.saw(sum)
}

// plantShared remembers how much shared memory, files in memory included, the host
// has.
func plantShared(s *scene) error {
	s.before = meminfo("Shmem")
	s.later(func() {
		for _, path := range slicesOf(glob("/dev/shm/*"+s.target.Token), glob("/tmp/*"+s.target.Token)) {
			os.RemoveAll(path) //nolint:errcheck // the end of the scene
		}
	})
	return plantMemory(s)
}

func seeShared(s *scene) { s.saw(meminfo("Shmem")) }

const pieces = 16

func plantSegments(s *scene) error {
	s.target.Number = int(time.Now().UnixNano()&0x3fffff00) | 1<<29
	s.later(func() {
		for i := range pieces {
			if id, err := unix.SysvShmGet(s.target.Number+i, 0, 0); err == nil {
				_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
			}
		}
	})
	return plantShared(s)
}

func fillSegments(t target) (string, error) {
	for i := range pieces {
		id, err := unix.SysvShmGet(t.Number+i, bigMemory/pieces, unix.IPC_CREAT|0o600)
		if err != nil {
			return "", fmt.Errorf("shmget: %w", err)
		}
		data, err := unix.SysvShmAttach(id, 0, 0)
		if err != nil {
			return "", fmt.Errorf("shmat: %w", err)
		}
		touch(data)
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
	err = use(n)
	time.Sleep(5 * time.Second)
	return err
}

// use takes n bytes of memory and writes to each page.
func use(n int64) error {
	const piece = 8 << 20
	for taken := int64(0); taken < n; taken += piece {
		data, err := unix.Mmap(-1, 0, piece, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			return fmt.Errorf("mmap after %d MiB: %w", taken>>20, err)
		}
		touch(data)
		time.Sleep(25 * time.Millisecond)
	}
	return nil
}

func touch(data []byte) {
	for i := 0; i < len(data); i += 4096 {
		data[i] = 1
	}
}
