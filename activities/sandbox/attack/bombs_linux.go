package attack

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Bombs exceed the limits many times over, and slowly, because the limits may take up to a second
// to act. An attack succeeds if most of its bomb existed at the same time.
const (
	manyProcesses  = 800
	seenProcesses  = 400
	bigMemory      = 1 << 30
	seenMemory     = 900 << 20
	bigDisk        = 1 << 30
	pieceOfDisk    = 16 << 20
	seenDisk       = 512 << 20
	manyFiles      = 60_000
	seenFiles      = 50_000
	spareMemory    = 3 << 30
	spareDisk      = 4 << 30
	spareProcesses = 2 * manyProcesses
)

func (s *scene) recordPeak(n int64) { s.peak = max(s.peak, n) }

// atLeast returns a proof that the peak reached n.
func atLeast(n int64, unit string) func(*scene, trial) string {
	return func(s *scene, _ trial) string {
		if s.peak >= n {
			return fmt.Sprintf("the host saw %d %s", s.peak, unit)
		}
		return ""
	}
}

func setupProcesses(s *scene) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &limit); err != nil {
		return err
	}
	if os.Geteuid() != 0 && limit.Cur < spareProcesses {
		return skipAttack("this user may have only %d processes anyway", limit.Cur)
	}
	return setupMemory(s)
}

func setupMemory(*scene) error {
	if free := readNumber("/proc/meminfo", "MemAvailable") << 10; free < spareMemory {
		return skipAttack("this host has only %d MiB of memory to spare, and %d are needed", free>>20, spareMemory>>20)
	}
	return nil
}

func setupDisk(s *scene) error {
	var st unix.Statfs_t
	if err := unix.Statfs(s.base, &st); err != nil {
		return err
	}
	if free := int64(st.Bavail) * st.Bsize; free < spareDisk {
		return skipAttack("this host has only %d MiB of disk to spare, and %d are needed", free>>20, int64(spareDisk)>>20)
	}
	if st.Files > 0 && st.Ffree < 4*manyFiles {
		return skipAttack("this host has only %d files to spare, and %d are needed", st.Ffree, 4*manyFiles)
	}
	return nil
}

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
			time.Sleep(5 * time.Millisecond) // some processes may end
		}
		if n%4 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	time.Sleep(200 * time.Millisecond)
	return "", err
}

// measureResident measures the memory of the attacker's processes, except for the program that they share.
func measureResident(s *scene) {
	var sum int64
	for _, pid := range processesWith(s.target.Token) {
		status := fmt.Sprintf("/proc/%d/status", pid)
		sum += (readNumber(status, "RssAnon") + readNumber(status, "RssShmem")) << 10
	}
	s.recordPeak(sum)
}

func useMemory(n int64) error {
	const piece = 8 << 20
	for used := int64(0); used < n; used += piece {
		data, err := unix.Mmap(-1, 0, piece, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			return fmt.Errorf("mmap after %d MiB: %w", used>>20, err)
		}
		touchPages(data)
		time.Sleep(25 * time.Millisecond)
	}
	return nil
}

func touchPages(data []byte) {
	for i := 0; i < len(data); i += 4096 {
		data[i] = 1
	}
}

func diskUsed(s *scene, t trial) string {
	s.recordPeak(bytesOnDisk(s.workspace))
	return atLeast(seenDisk, "bytes on disk")(s, t)
}

func filesMade(s *scene, t trial) string {
	s.recordPeak(sumFiles(s.workspace, func(string) int64 { return 1 }))
	return atLeast(seenFiles, "files")(s, t)
}

func bytesOnDisk(dir string) int64 {
	return sumFiles(dir, func(path string) int64 {
		var st unix.Stat_t
		_ = unix.Lstat(path, &st) // a removed file has no blocks
		return st.Blocks * 512
	})
}

func sumFiles(dir string, measure func(path string) int64) (sum int64) {
	_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, _ error) error {
		sum += measure(path)
		return nil
	})
	return sum
}

func createFiles(n int, size int64) error {
	for i := range n {
		dir := fmt.Sprintf("d%d", i/500)
		if i%500 == 0 {
			if err := os.Mkdir(dir, 0o700); err != nil {
				return err
			}
		}
		f, err := os.Create(fmt.Sprintf("%s/%d", dir, i))
		if err != nil {
			return err
		}
		if err := errors.Join(writeBytes(f, size), f.Close()); err != nil {
			return err
		}
		if i%20 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

// writeBytes writes n bytes that are not zero, because a file system may not store zeros.
func writeBytes(f *os.File, n int64) error {
	if n == 0 {
		return nil
	}
	chunk := bytes.Repeat([]byte("16 bytes of text"), 1<<16)
	for range n >> 20 {
		if _, err := f.Write(chunk); err != nil {
			return err
		}
		time.Sleep(4 * time.Millisecond)
	}
	return nil
}
