package artifact

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"conclave/engine/files/patch"
)

// Restore writes the files and links to a directory, creating it if it is missing. It
// replaces existing files of the same name and keeps others. With readOnly the whole
// tree becomes read-only: remove it with RemoveTree.
//
// Content that does not match its hash fails with ErrCorrupt. Nothing outside the
// directory is written, regardless of the contents of the manifest and the directory.
func (m Manifest) Restore(ctx context.Context, store Store, layout Layout, dir string, readOnly bool) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("restore workspace to %q: %w", dir, err)
		}
	}()
	if err := m.Check(); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	r := &restoring{store: store, layout: layout, root: root, readOnly: readOnly}
	if err := r.restoreFiles(ctx, m); err != nil || !readOnly {
		return err
	}
	return r.sealDirs(m)
}

// restoring restores one manifest.
type restoring struct {
	store    Store
	layout   Layout
	root     *os.Root
	readOnly bool
}

func (r *restoring) restoreFiles(ctx context.Context, m Manifest) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, f := range m.Files {
		if f.isRegular() {
			group.Go(func() error { return r.restoreFile(groupCtx, f) })
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	// Links come after the files, so that no file is written through a link of the manifest.
	for _, f := range m.Files {
		var err error
		switch {
		case f.Link != "":
			err = r.restoreLink(ctx, f)
		case f.Dir:
			err = r.emptyDir(f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *restoring) emptyDir(f File) error {
	if info, err := r.root.Lstat(f.Path); err == nil && info.IsDir() {
		return nil
	}
	if err := r.clearName(f.Path); err != nil {
		return err
	}
	return r.root.Mkdir(f.Path, 0o755)
}

func (r *restoring) restoreFile(ctx context.Context, f File) error {
	src, err := OpenFile(ctx, r.store, r.layout, f)
	if err != nil {
		return fmt.Errorf("content of %q: %w", f.Path, err)
	}
	defer src.Close()
	const flags = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	dst, err := r.root.OpenFile(f.Path, flags, 0o600)
	if err != nil { // most often the directory is missing
		if err := r.clearName(f.Path); err != nil {
			return err
		}
		if dst, err = r.root.OpenFile(f.Path, flags, 0o600); err != nil {
			return err
		}
	}
	err = errors.Join(CopyVerified(ctx, dst, src, f), dst.Chmod(r.modeOf(f)), dst.Close())
	if err != nil {
		return errors.Join(err, r.root.Remove(f.Path))
	}
	return nil
}

// CopyVerified copies the content of f and fails with ErrCorrupt if size or hash differ.
func CopyVerified(ctx context.Context, dst io.Writer, src io.Reader, f File) error {
	if s, ok := src.(*Section); ok && ctx.Err() == nil {
		if int64(len(s.data)) != f.Size || s.sum != f.SHA256 && SumOf(s.data) != f.SHA256 {
			return fmt.Errorf("content of %q: %w", f.Path, ErrCorrupt)
		}
		_, err := dst.Write(s.data)
		return err
	}
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(dst, hash), contextReader(ctx, io.LimitReader(src, f.Size+1)))
	if err != nil {
		return fmt.Errorf("content of %q: %w", f.Path, err)
	}
	if n != f.Size || hex.EncodeToString(hash.Sum(nil)) != f.SHA256 {
		return fmt.Errorf("content of %q: %w", f.Path, ErrCorrupt)
	}
	return nil
}

func (r *restoring) restoreLink(ctx context.Context, f File) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := r.clearName(f.Path); err != nil {
		return err
	}
	return r.root.Symlink(f.Link, f.Path)
}

// clearName makes the directories of a file and frees its name.
func (r *restoring) clearName(name string) error {
	if err := r.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	if err := r.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (r *restoring) modeOf(f File) fs.FileMode {
	mode := fs.FileMode(f.Mode)&fs.ModePerm | 0o400
	if r.readOnly {
		mode &^= 0o222
	}
	return mode
}

func (r *restoring) sealDirs(m Manifest) error {
	dirs := map[string]bool{".": true}
	for _, f := range m.Files {
		if f.Dir {
			dirs[f.Path] = true
		}
		for dir := path.Dir(f.Path); dir != "."; dir = path.Dir(dir) {
			dirs[dir] = true
		}
	}
	for _, dir := range slices.Backward(slices.Sorted(maps.Keys(dirs))) {
		if err := r.root.Chmod(dir, 0o555); err != nil {
			return err
		}
	}
	return nil
}

// File is one entry of a Manifest: a regular file with content, a symbolic link with
// a target inside the workspace, or an empty directory.
type File struct {
	Path   string // slash-separated, relative; any bytes but NUL
	Dir    bool   // whether it is an empty directory
	Mode   uint32 // permission bits
	Size   int64
	SHA256 string
	Link   string
}

// fileJSON is the JSON form of a File. Strings that are not UTF-8 are encoded in Base64.
type fileJSON struct {
	Path       string `json:"path,omitempty"`
	PathBase64 []byte `json:"path_base64,omitempty"`
	Type       string `json:"type,omitempty"`
	Mode       uint32 `json:"mode"`
	Size       int64  `json:"size"`
	SHA256     string `json:"sha256,omitempty"`
	Link       string `json:"link,omitempty"`
	LinkBase64 []byte `json:"link_base64,omitempty"`
}

// typeDir is the type of an empty directory in JSON.
const typeDir = "dir"

// MarshalJSON implements json.Marshaler.
func (f File) MarshalJSON() ([]byte, error) {
	doc := fileJSON{Mode: f.Mode, Size: f.Size, SHA256: f.SHA256}
	doc.Path, doc.PathBase64 = encodeText(f.Path)
	doc.Link, doc.LinkBase64 = encodeText(f.Link)
	if f.Dir {
		doc.Type = typeDir
	}
	return compactJSON(doc)
}

// UnmarshalJSON implements json.Unmarshaler.
func (f *File) UnmarshalJSON(data []byte) error {
	var doc fileJSON
	if err := json.Unmarshal(data, &doc); err != nil {
		return err
	}
	if doc.Type != "" && doc.Type != typeDir {
		return fmt.Errorf("entry %q has the unknown type %q", doc.Path, doc.Type)
	}
	*f = File{
		Path: doc.Path + string(doc.PathBase64), Dir: doc.Type == typeDir, Mode: doc.Mode, Size: doc.Size,
		SHA256: doc.SHA256, Link: doc.Link + string(doc.LinkBase64),
	}
	return nil
}

func encodeText(s string) (text string, raw []byte) {
	if utf8.ValidString(s) {
		return s, nil
	}
	return "", []byte(s)
}

func compactJSON(value any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// paths are the paths of removed files. In JSON, paths that are not UTF-8 are objects with path_base64.
type paths []string

func (p paths) MarshalJSON() ([]byte, error) {
	list := make([]any, 0, len(p))
	for _, name := range p {
		if text, raw := encodeText(name); raw != nil {
			list = append(list, map[string][]byte{"path_base64": raw})
		} else {
			list = append(list, text)
		}
	}
	return compactJSON(list)
}

func (p *paths) UnmarshalJSON(data []byte) error {
	var list []json.RawMessage
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	*p = nil
	for _, item := range list {
		var name string
		if json.Unmarshal(item, &name) != nil {
			var encoded struct {
				Path []byte `json:"path_base64"`
			}
			if err := json.Unmarshal(item, &encoded); err != nil {
				return err
			}
			name = string(encoded.Path)
		}
		*p = append(*p, name)
	}
	return nil
}

// Reserved returns why no manifest may have the entry because of its name or the target of its
// link, or "". A step leaves such an entry out, and readers of manifests refuse it.
func (f File) Reserved() string { return patch.Reserved(f.Path, f.Link) }

func (f File) isRegular() bool { return f.Link == "" && !f.Dir }

func (f File) checkEntry() error {
	if err := nameError("path", f.Path, pathProblem(f.Path)); err != nil {
		return err
	}
	for name := range strings.SplitSeq(f.Path, "/") {
		if len(name) > maxSegment {
			return nameError("path", f.Path, fmt.Sprintf("it has a name of %d bytes: at most %d are allowed", len(name), maxSegment))
		}
	}
	if strings.Count(f.Path, "/") >= maxDepth {
		return &LimitError{What: "names in a path", Path: f.Path, Max: maxDepth}
	}
	if f.Size < 0 || f.Size > maxFileBytes {
		return &LimitError{What: "bytes in a file", Path: f.Path, Max: maxFileBytes}
	}
	problem := ""
	switch {
	case f.isRegular() && !isSum(f.SHA256):
		problem = "it has neither a sha256 in lower-case hex nor a link"
	case !f.isRegular() && (f.SHA256 != "" || f.Size != 0 || f.Dir && f.Link != ""):
		problem = "it has more than one of content, a link and the type dir"
	case f.Link != "" && !linkInside(f.Path, f.Link):
		problem = fmt.Sprintf("its link %q leaves the workspace", f.Link)
	default:
		problem = f.Reserved()
	}
	return nameError("path", f.Path, problem)
}

// linkInside reports whether a link's target, read as text, is a path inside the
// workspace but outside peers/.
func linkInside(name, target string) bool {
	if path.IsAbs(target) || strings.IndexByte(target, 0) >= 0 {
		return false
	}
	to := path.Join(path.Dir(name), target)
	return to != ".." && !strings.HasPrefix(to, "../") && to != peersDir && !strings.HasPrefix(to, peersDir+"/")
}
