package mcp

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"conclave/cmd/conclave/run/inputs"
	"conclave/engine/files/artifact"
	"conclave/engine/text"
)

// clientRoot means the client's root if it is given as a base or a context. Any other
// value is the reference of a stored directory.
const clientRoot = "."

// rootsRequest is the ID under which a call asks the client for its roots.
const rootsRequest = "roots"

func (in ask) usesRoot() bool {
	return in.Base == clientRoot || slices.ContainsFunc(in.Context, func(c artifact.Context) bool { return c.Manifest == clientRoot })
}

// resolveMaterial returns the files that a question starts from, and the directory of its base. If asks is
// not nil, it requests the client's roots, and the client repeats the call with them.
func (s server) resolveMaterial(ctx context.Context, req *mcp.CallToolRequest, in ask) (m artifact.Material, dir string, asks *mcp.CallToolResult, err error) {
	m = artifact.Material{Base: in.Base, Context: in.Context}
	if in.usesRoot() || slices.ContainsFunc(in.Images, isPath) {
		granted, asked := req.Params.InputResponses[rootsRequest].(*mcp.ListRootsResult)
		if !asked {
			return m, "", &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{rootsRequest: &mcp.ListRootsParams{}}}, s.mayAskRoots(req)
		}
		if dir, err = rootOf(granted.Roots); err != nil {
			return m, "", nil, err
		}
	}
	if in.usesRoot() {
		if err := s.uploadRoot(ctx, &m, dir); err != nil {
			return m, "", nil, err
		}
	}
	files, err := readPictures(dir, in.Images)
	if err == nil {
		m.Images, err = s.desk.StorePictures(ctx, files)
	}
	if err != nil {
		return m, "", nil, err
	}
	if in.Base != clientRoot {
		dir = ""
	}
	return m, dir, nil, s.desk.CheckMaterial(ctx, m)
}

// isPath reports whether a picture is a file in the client's root, and not a data URL.
func isPath(picture string) bool { return !strings.HasPrefix(picture, "data:") }

// readPictures reads the pictures of a question: data URLs, and files in the client's root dir, out of
// which no path and no link leads.
func readPictures(dir string, pictures []string) (files []inputs.File, err error) {
	var root *os.Root
	if slices.ContainsFunc(pictures, isPath) {
		if root, err = os.OpenRoot(dir); err != nil {
			return nil, err
		}
		defer root.Close()
	}
	for i, p := range pictures {
		f := inputs.File{Name: fmt.Sprintf("picture-%d", i+1)}
		if isPath(p) {
			name := strings.TrimPrefix(p, "file://")
			if filepath.IsAbs(name) {
				name, err = filepath.Rel(dir, name)
			}
			var info os.FileInfo
			if err == nil {
				info, err = root.Stat(name)
			}
			switch {
			case err != nil:
			case !info.Mode().IsRegular() || info.Size() > artifact.MaxPictureBytes:
				err = errors.New("it is no file, or too large")
			default:
				f.Name = filepath.Base(name)
				f.Data, err = root.ReadFile(name)
			}
		} else {
			_, encoded, _ := strings.Cut(p, ";base64,")
			f.Data, err = base64.StdEncoding.DecodeString(encoded)
		}
		if err != nil {
			return nil, fmt.Errorf("picture %d, %.200q: %w; give the path of a file in the client's root, or a data URL", i+1, p, err)
		}
		files = append(files, f)
	}
	return files, nil
}

// uploadRoot stores the client's root and replaces clientRoot by its reference.
func (s server) uploadRoot(ctx context.Context, m *artifact.Material, dir string) error {
	reference, err := s.desk.Upload(ctx, dir)
	if err != nil {
		return err
	}
	if m.Base == clientRoot {
		m.Base = reference
	}
	for i := range m.Context {
		if m.Context[i].Manifest == clientRoot {
			m.Context[i].Manifest = reference
		}
	}
	return nil
}

// mayAskRoots returns an error if the client is on another machine or has no roots.
func (s server) mayAskRoots(req *mcp.CallToolRequest) error {
	const remedy = "give the reference sha256:… that `conclave upload DIR` prints"
	if !s.local {
		return errors.New(`this server reads no directories of its clients, so that "." has no meaning here; ` + remedy)
	}
	if p := req.Session.InitializeParams(); p == nil || p.Capabilities == nil || p.Capabilities.RootsV2 == nil {
		return errors.New(`"." is the root of the client's workspace, and this client grants none; ` + remedy)
	}
	return nil
}

func rootOf(roots []*mcp.Root) (string, error) {
	if len(roots) != 1 {
		uris := text.Each(roots, func(r *mcp.Root) string { return r.URI })
		return "", fmt.Errorf(`"." is the root of the client's workspace, of which the client grants %d (%s); `+
			"grant one, or give the reference sha256:… that `conclave upload DIR` prints", len(roots), strings.Join(uris, ", "))
	}
	u, err := url.Parse(roots[0].URI)
	if err != nil || u.Scheme != "file" || u.Host != "" && u.Host != "localhost" || !filepath.IsAbs(filepath.FromSlash(u.Path)) {
		return "", fmt.Errorf("the client's root is %.200q, which names no directory of this machine; a root is file:///DIR", roots[0].URI)
	}
	return filepath.FromSlash(u.Path), nil
}

// scheme is the prefix of resource addresses: conclave://SESSION/answer for an answer, and
// conclave://SESSION/files/LABEL/PATH for a file of an answer. With an empty PATH the
// resource is a list of the files.
const scheme = "conclave://"

func answerURI(session string) string { return scheme + session + "/answer" }

func (s server) addResources(to *mcp.Server) {
	to.AddResourceTemplate(&mcp.ResourceTemplate{
		Name: "answer", URITemplate: scheme + "{session_id}/answer", MIMEType: "text/markdown",
		Description: "The final answer of a session.",
	}, s.readAnswer)
	to.AddResourceTemplate(&mcp.ResourceTemplate{
		Name: "file", URITemplate: scheme + "{session_id}/files/{label}/{+path}",
		Description: "A file of an answer, such as agent2.1; without a path their list.",
	}, s.readFile)
}

func (s server) readAnswer(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	id, _, _ := strings.Cut(strings.TrimPrefix(req.Params.URI, scheme), "/")
	if _, err := s.desk.Find(ctx, s.by, id); err != nil {
		return nil, mcp.ResourceNotFoundError(req.Params.URI)
	}
	_, out, err := s.awaitAnswer(ctx, id, time.Now(), nil, nil)
	if err != nil {
		return nil, err
	}
	if out.Answer == "" {
		return nil, mcp.ResourceNotFoundError(req.Params.URI)
	}
	return oneResource(&mcp.ResourceContents{URI: req.Params.URI, MIMEType: "text/markdown", Text: out.Answer}), nil
}

func (s server) readFile(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	uri := req.Params.URI
	parts := strings.SplitN(strings.TrimPrefix(uri, scheme), "/", 4)
	if len(parts) < 4 {
		return nil, mcp.ResourceNotFoundError(uri)
	}
	path, err := url.PathUnescape(parts[3])
	if err != nil {
		return nil, mcp.ResourceNotFoundError(uri)
	}
	a, err := s.desk.Answer(ctx, s.by, parts[0], parts[2])
	if err != nil {
		return nil, mcp.ResourceNotFoundError(uri)
	}
	if path == "" {
		return oneResource(&mcp.ResourceContents{URI: uri, MIMEType: "text/plain", Text: strings.Join(a.Paths(), "\n")}), nil
	}
	data, err := a.File(ctx, path)
	if err != nil {
		return nil, mcp.ResourceNotFoundError(uri)
	}
	if utf8.Valid(data) {
		return oneResource(&mcp.ResourceContents{URI: uri, MIMEType: "text/plain", Text: string(data)}), nil
	}
	return oneResource(&mcp.ResourceContents{URI: uri, MIMEType: "application/octet-stream", Blob: data}), nil
}

// oneResource returns one resource. It sends an empty text as a blob, because the SDK omits an
// empty text and clients refuse a resource with neither text nor blob.
func oneResource(c *mcp.ResourceContents) *mcp.ReadResourceResult {
	if c.Text == "" && c.Blob == nil {
		c.Blob = []byte{}
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{c}}
}
