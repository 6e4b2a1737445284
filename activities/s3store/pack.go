package s3store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"conclave/engine/files/artifact"
)

// packHeader is the header of a pack: one object, …/blobs/packs/<sha256 of its header>, that stores many
// small contents. A pack starts with a line of JSON, the header; the contents follow in the header's order.
type packHeader struct {
	Format int      `json:"format"`
	Files  []string `json:"files"` // hashes of the contents
	Sizes  []int64  `json:"sizes"` // sizes in bytes
}

// packFormat is the newest supported format of packs.
const packFormat = 1

const (
	maxKept   = 256 << 20 // bytes of packs on this machine
	maxPlaces = 1 << 18   // contents whose places are remembered
)

// packs remembers the positions of contents in packs. The zero value is ready for use.
type packs struct {
	loading sync.Mutex // held while packs are listed and read

	mu     sync.Mutex
	places map[string]place // places in packs, by the key of the content
	read   map[string]bool  // keys of the packs whose contents are in places
	kept   []keptPack       // the least recently added first
	room   int64            // bytes of kept; 0 means maxKept
}

// place is the position of a content in a pack.
type place struct {
	pack         string // key of the pack
	offset, size int64
}

// keptPack is a copy of a pack in an unlinked temporary file.
type keptPack struct {
	key  string
	size int64
	file *os.File
}

func packsOf(key string) (prefix string, ok bool) {
	at := strings.LastIndex(key, "/") + 1
	root, ok := strings.CutSuffix(key[:at], "blobs/sha256/")
	return root + "blobs/packs/", ok
}

// PutBlobs implements artifact.Store. It stores all contents in one object.
func (s *Store) PutBlobs(ctx context.Context, prefix string, contents []artifact.Content) error {
	dir, ok := packsOf(prefix)
	if !ok {
		return fmt.Errorf("put %d contents: %q is not a prefix of blobs", len(contents), prefix)
	}
	h := packHeader{Format: packFormat}
	for _, c := range contents {
		h.Files, h.Sizes = append(h.Files, c.SHA256), append(h.Sizes, int64(len(c.Data)))
	}
	header, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("put %d contents: %w", len(contents), err)
	}
	key, body := dir+artifact.SumOf(header), bytes.NewBuffer(append(header, '\n'))
	for _, c := range contents {
		body.Write(c.Data)
	}
	if err := s.Put(ctx, key, bytes.NewReader(body.Bytes())); err != nil {
		return err
	}
	return s.packs.addPack(key, body.Bytes())
}

func (p *packs) addPack(key string, data []byte) error {
	header, contents, _ := bytes.Cut(data, []byte("\n"))
	var h packHeader
	if err := json.Unmarshal(header, &h); err != nil {
		return &artifact.MalformedError{Key: key, Err: err}
	}
	if h.Format > packFormat {
		return fmt.Errorf("%s has format %d, this version reads up to %d: use a newer version", key, h.Format, packFormat)
	}
	dir := strings.TrimSuffix(key[:strings.LastIndex(key, "/")+1], "packs/") + "sha256/"
	offset, places := int64(len(header)+1), map[string]place{}
	for i, sum := range h.Files[:min(len(h.Files), len(h.Sizes))] {
		places[dir+sum] = place{pack: key, offset: offset, size: h.Sizes[i]}
		offset += h.Sizes[i]
	}
	if offset != int64(len(header)+1+len(contents)) || len(h.Files) != len(h.Sizes) {
		return &artifact.MalformedError{Key: key, Err: errors.New("its header and its size differ")}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.places == nil || len(p.places) > maxPlaces {
		p.places, p.read = map[string]place{}, map[string]bool{}
	}
	for content, at := range places {
		p.places[content] = at
	}
	p.read[key] = true
	p.keepCopy(key, data)
	return nil
}

// keepCopy copies a pack to a temporary file. If that fails, the contents are read from the bucket.
func (p *packs) keepCopy(key string, data []byte) {
	if slices.ContainsFunc(p.kept, func(k keptPack) bool { return k.key == key }) {
		return
	}
	file, err := os.CreateTemp("", "conclave-pack-*")
	if err != nil {
		return
	}
	_, err = file.Write(data)
	if err = errors.Join(err, os.Remove(file.Name())); err != nil {
		_ = file.Close()
		return
	}
	p.kept = append(p.kept, keptPack{key: key, size: int64(len(data)), file: file})
	size := int64(0)
	for _, k := range p.kept {
		size += k.size
	}
	for size > cmp.Or(p.room, maxKept) {
		size -= p.kept[0].size
		_ = p.kept[0].file.Close()
		p.kept = p.kept[1:]
	}
}

func (p *packs) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, k := range p.kept {
		errs = append(errs, k.file.Close())
	}
	p.kept = nil
	return errors.Join(errs...)
}

// findContent returns the position of a content, and the content itself if this machine has a copy of the
// pack.
func (p *packs) findContent(key string) (at place, body *artifact.Section, found bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, found = p.places[key]
	if found && at.size == 0 {
		return at, artifact.NewSection(nil), true
	}
	for _, k := range p.kept {
		if !found || k.key != at.pack {
			continue
		}
		data := make([]byte, at.size)
		if _, err := k.file.ReadAt(data, at.offset); err == nil {
			body = artifact.NewSection(data)
		}
	}
	return at, body, found
}

// forgetPack removes a pack and its contents, so that the next search lists the packs again.
func (p *packs) forgetPack(pack string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.read, pack)
	for content, at := range p.places {
		if at.pack == pack {
			delete(p.places, content)
		}
	}
}

// openPacked opens a content whose position in a pack is known. found is false if the position is
// unknown or the pack no longer exists.
func (s *Store) openPacked(ctx context.Context, key string) (body io.ReadCloser, found bool, err error) {
	at, section, found := s.packs.findContent(key)
	switch {
	case !found:
		return nil, false, nil
	case section != nil:
		return section, true, ctx.Err()
	}
	full, err := s.objectKey(ctx, at.pack)
	if err != nil {
		return nil, false, err
	}
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{
		Bucket: &s.bucket, Key: full, Range: aws.String(fmt.Sprintf("bytes=%d-%d", at.offset, at.offset+at.size-1)),
	})
	if isMissing(err) { // deleted with its session
		s.packs.forgetPack(at.pack)
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	return limited{io.LimitReader(out.Body, at.size), out.Body}, true, nil
}

// limited reads the beginning of a stream and closes the whole stream.
type limited struct {
	io.Reader
	io.Closer
}

func (s *Store) findPacked(ctx context.Context, prefix, key string) (body io.ReadCloser, found bool, err error) {
	s.packs.loading.Lock()
	defer s.packs.loading.Unlock()
	if body, found, err = s.openPacked(ctx, key); found || err != nil {
		return body, found, err // another search has found it
	}
	for pack, err := range s.List(ctx, prefix) {
		if err != nil {
			return nil, false, err
		}
		if s.packs.hasRead(pack) {
			continue
		}
		data, err := s.readObject(ctx, pack)
		if err == nil {
			err = s.packs.addPack(pack, data)
		}
		if err != nil {
			return nil, false, err
		}
	}
	return s.openPacked(ctx, key)
}

func (p *packs) hasRead(pack string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.read[pack]
}
