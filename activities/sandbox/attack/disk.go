//go:build linux

package attack

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// diskBombs are attacks on the host's disk.
func diskBombs() []attack {
	return []attack{
		{
			name: "disk", what: "write 1 GiB to one file of the workspace", plant: plantDisk,
			try: func(target) (string, error) {
				f, err := os.OpenFile("bomb", os.O_CREATE|os.O_WRONLY, 0o600)
				if err != nil {
					return "", err
				}
				return "", errors.Join(writeBytes(f, bigDisk), f.Close())
			},
			during: seeDisk, worked: atLeast(seenDisk, "bytes on disk"), fatal: true,
		},
		{
			name: "disk_many", what: "write 1 GiB to files of the workspace of which each is small", plant: plantDisk,
			try:    func(t target) (string, error) { return "", fill(".", t.Token, bigDisk) },
			during: seeDisk, worked: atLeast(seenDisk, "bytes on disk"), fatal: true,
		},
		{
			name: "disk_tmp", what: "write 1 GiB to files of the temporary and the home directory", plant: plantDisk,
			try: func(t target) (string, error) {
				return "", errors.Join(fill(os.TempDir(), t.Token, bigDisk/2), fill(os.Getenv("HOME"), t.Token, bigDisk/2))
			},
			during: seeDisk, worked: atLeast(seenDisk, "bytes on disk and in files in memory"), fatal: true,
		},
		{
			name: "disk_allocate", what: "reserve 1 GiB of the disk with fallocate, which writes nothing", plant: plantFree,
			try: func(target) (string, error) {
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
			},
			during: seeFree, worked: atLeast(seenDisk, "bytes of the disk gone"), fatal: true,
		},
		{
			name: "disk_inodes", what: fmt.Sprintf("make %d files in the workspace", manyFiles), plant: plantInodes, try: makeFiles,
			worked: func(s *scene, _ trial) string {
				var n int64
				_ = filepath.WalkDir(s.ws, func(string, fs.DirEntry, error) error { n++; return nil })
				s.saw(n)
				return atLeast(seenFiles, "files")(s, trial{})
			},
			fatal: true,
		},
	}
}

// unlinkedBombs are attacks on the host's disk with files that no directory has any
// more.
func unlinkedBombs() []attack {
	bomb := func(name, how string, keep func(*os.File) error) attack {
		return attack{
			name: name, what: "write 1 GiB to files that no directory has any more, " + how, plant: plantFree,
			try:    func(target) (string, error) { return "", unlinked(keep) },
			during: seeFree, worked: atLeast(seenDisk, "bytes of the disk gone"), fatal: true,
		}
	}
	return []attack{
		bomb("disk_unlinked", "and keep them open", func(*os.File) error { return nil }),
		bomb("disk_mapped", "and keep them by a map of one page", func(f *os.File) error {
			_, err := unix.Mmap(int(f.Fd()), 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_SHARED)
			return errors.Join(err, f.Close())
		}),
		bomb("disk_sent", "and keep them in a socket that nobody reads", func(f *os.File) error {
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0) // to the end of the process
			if err != nil {
				return err
			}
			return errors.Join(unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(int(f.Fd())), nil, 0), f.Close())
		}),
	}
}

// unlinked makes files, removes and fills them, and has them kept.
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

func plantDisk(s *scene) error {
	if free := freeDisk(s.base); free < spareDisk {
		return skip("this host has only %d MiB of disk to spare, and %d are needed", free>>20, int64(spareDisk)>>20)
	}
	return plantShared(s)
}

func plantFree(s *scene) error {
	if err := plantDisk(s); err != nil {
		return err
	}
	s.before = -freeDisk(s.base)
	return nil
}

func plantInodes(s *scene) error {
	var st unix.Statfs_t
	if err := unix.Statfs(s.base, &st); err != nil {
		return err
	}
	if st.Files > 0 && st.Ffree < 4*manyFiles {
		return skip("this host has only %d files to spare, and %d are needed", st.Ffree, 4*manyFiles)
	}
	return nil
}

func freeDisk(path string) int64 {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0
	}
	return int64(st.Bavail) * st.Bsize
}

func seeFree(s *scene) { s.saw(-freeDisk(s.base)) }

// seeDisk adds up the workspace, the temporary directory, and what has become more
// in memory files.
func seeDisk(s *scene) {
	s.saw(blocks(s.ws) + blocks(s.temp) + meminfo("Shmem"))
}

// blocks is what the files below dir take on disk, in bytes.
func blocks(dir string) (sum int64) {
	_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, _ error) error {
		var st unix.Stat_t
		if unix.Lstat(path, &st) == nil {
			sum += st.Blocks * 512
		}
		return nil
	})
	return sum
}

// fill writes n bytes to files of 16 MiB each.
func fill(dir, token string, n int64) error {
	const piece = 16 << 20
	for i := int64(0); i < n/piece; i++ {
		f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("bomb%d-%s", i, token)), os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		if err := errors.Join(writeBytes(f, piece), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

func writeBytes(f *os.File, n int64) error {
	chunk := make([]byte, 1<<20)
	for i := range chunk {
		chunk[i] = byte(i) // no zeros: a file system may not store them
	}
	for range n >> 20 {
		if _, err := f.Write(chunk); err != nil {
			return err
		}
		time.Sleep(4 * time.Millisecond)
	}
	return nil
}

func makeFiles(target) (string, error) {
	for i := range manyFiles {
		if i%500 == 0 {
			if err := os.Mkdir(fmt.Sprintf("d%d", i/500), 0o700); err != nil {
				return "", err
			}
		}
		f, err := os.OpenFile(fmt.Sprintf("d%d/%d", i/500, i), os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
		if err != nil {
			return "", err
		}
		if err := f.Close(); err != nil {
			return "", err
		}
		if i%20 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	return "", nil
}
