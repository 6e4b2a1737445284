package devserver

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/versity/versitygw/s3api/middlewares"
)

// publication is the short last part of a write, in which an object appears
// under its key.
type publication struct {
	guard *guard
	begun bool
	// bucket and object are paths; above is the deepest directory on the way
	// to the object that was there before.
	bucket, object, above string
}

func (g *guard) publication(bucket, key string) *publication {
	root := filepath.Join(g.root, bucket)
	return &publication{guard: g, bucket: root, above: root, object: filepath.Join(root, filepath.FromSlash(key))}
}

// begin excludes deletes until end. Beginning twice is beginning once.
func (p *publication) begin() {
	if p.begun {
		return
	}
	p.guard.commits.RLock()
	p.begun = true
	p.above = filepath.Dir(p.object)
	for p.above != p.bucket {
		if _, err := os.Lstat(p.above); err == nil {
			break
		}
		p.above = filepath.Dir(p.above)
	}
}

// end lets deletes go on. A publication that never began has nothing to end.
func (p *publication) end() {
	if p.begun {
		p.guard.commits.RUnlock()
	}
}

// sync makes the published object survive a loss of power: its attributes, its
// name, and the names of the directories that were made for it. The content
// was synced before it was published.
func (p *publication) sync() error {
	if err := syncPath(p.object); err != nil {
		return fmt.Errorf("sync the object: %w", err)
	}
	for dir := filepath.Dir(p.object); ; dir = filepath.Dir(dir) {
		// A directory that somebody took away by hand needs no entry.
		if err := syncPath(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("sync the directory of the object: %w", err)
		}
		if dir == p.above {
			return nil
		}
	}
}

// body is the body of an upload on its way in.
type body struct {
	source io.Reader
	// length is what the client announced, negative if it did not.
	length, received int64
	// whole is called once, when all of it has arrived.
	whole func()
}

// receive wraps a body. A checksum that trails it stays visible to the
// backend, which would not verify it otherwise.
func receive(source io.Reader, length *int64, whole func()) io.Reader {
	b := &body{source: source, length: -1, whole: whole}
	if length != nil {
		b.length = *length
	}
	if sum, ok := source.(middlewares.ChecksumReader); ok {
		return &summedBody{body: b, sum: sum}
	}
	return b
}

// Read passes the body on and refuses an end that comes too early.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.source.Read(p)
	b.received += int64(n)
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	if b.received < b.length {
		return n, errIncompleteBody
	}
	if b.whole != nil {
		b.whole()
		b.whole = nil
	}
	return n, err
}

// summedBody is a body with a trailing checksum.
type summedBody struct {
	*body
	sum middlewares.ChecksumReader
}

// Algorithm implements middlewares.ChecksumReader.
func (b *summedBody) Algorithm() string { return b.sum.Algorithm() }

// Checksum implements middlewares.ChecksumReader.
func (b *summedBody) Checksum() string { return b.sum.Checksum() }
