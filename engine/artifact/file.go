package artifact

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"conclave/engine/patch"
)

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
	doc.Path, doc.PathBase64 = encodable(f.Path)
	doc.Link, doc.LinkBase64 = encodable(f.Link)
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

// encodable returns s as text if it is valid UTF-8, and otherwise its bytes.
func encodable(s string) (text string, raw []byte) {
	if utf8.ValidString(s) {
		return s, nil
	}
	return "", []byte(s)
}

// compactJSON is json.Marshal without escapes for HTML.
func compactJSON(value any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// paths are the paths of removed files. In JSON, paths that are not UTF-8 are objects with
// path_base64.
type paths []string

// MarshalJSON implements json.Marshaler.
func (p paths) MarshalJSON() ([]byte, error) {
	list := make([]any, 0, len(p))
	for _, name := range p {
		if text, raw := encodable(name); raw != nil {
			list = append(list, map[string][]byte{"path_base64": raw})
		} else {
			list = append(list, text)
		}
	}
	return compactJSON(list)
}

// UnmarshalJSON implements json.Unmarshaler.
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

// content reports whether the entry is a regular file.
func (f File) content() bool { return f.Link == "" && !f.Dir }

func (f File) check() error {
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
	case f.content() && !isSum(f.SHA256):
		problem = "it has neither a sha256 in lower-case hex nor a link"
	case !f.content() && (f.SHA256 != "" || f.Size != 0 || f.Dir && f.Link != ""):
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
