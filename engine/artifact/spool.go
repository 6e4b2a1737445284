package artifact

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
)

// spoolMemory is the size in bytes up to which a copy stays in memory.
const spoolMemory = 1 << 20

// spooled is a private copy of a file with its hash: what is stored is what was
// hashed, even if the file changes under our hands.
type spooled struct {
	sum  string
	body io.ReadSeeker
	temp *os.File // nil if the copy is in memory
}

// spool copies a file of the given size, a large one to a file in dir, or in the
// system's temporary directory if that is empty. Another size is an error.
func spool(ctx context.Context, f io.Reader, size int64, dir string) (*spooled, error) {
	s := &spooled{}
	// One byte more than there should be, to see that the file grew.
	n, sum, err := s.fill(contextReader(ctx, io.LimitReader(f, size+1)), size, dir)
	if err == nil && n != size {
		err = fmt.Errorf("it changed while it was read (%d bytes expected): stop what writes to it", size)
	}
	if err == nil {
		_, err = s.body.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.sum = sum
	return s, nil
}

func (s *spooled) fill(src io.Reader, size int64, dir string) (int64, string, error) {
	hash := sha256.New()
	src = io.TeeReader(src, hash)
	if size <= spoolMemory {
		data, err := io.ReadAll(src)
		s.body = bytes.NewReader(data)
		return int64(len(data)), hex.EncodeToString(hash.Sum(nil)), err
	}
	temp, err := os.CreateTemp(dir, "conclave-snapshot-*")
	if err != nil {
		return 0, "", err
	}
	s.temp, s.body = temp, temp
	n, err := io.Copy(temp, src)
	return n, hex.EncodeToString(hash.Sum(nil)), err
}

// Close removes the copy.
func (s *spooled) Close() error {
	if s.temp == nil {
		return nil
	}
	return errors.Join(s.temp.Close(), os.Remove(s.temp.Name()))
}
