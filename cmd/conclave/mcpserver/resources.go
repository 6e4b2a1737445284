package mcpserver

import (
	"context"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

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
	_, out, err := s.await(ctx, id, time.Now(), nil)
	if err != nil {
		return nil, err
	}
	if out.Answer == "" {
		return nil, mcp.ResourceNotFoundError(req.Params.URI)
	}
	return contents(&mcp.ResourceContents{URI: req.Params.URI, MIMEType: "text/markdown", Text: out.Answer}), nil
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
		return contents(&mcp.ResourceContents{URI: uri, MIMEType: "text/plain", Text: strings.Join(a.Paths, "\n")}), nil
	}
	data, err := a.File(ctx, path)
	if err != nil {
		return nil, mcp.ResourceNotFoundError(uri)
	}
	if utf8.Valid(data) {
		return contents(&mcp.ResourceContents{URI: uri, MIMEType: "text/plain", Text: string(data)}), nil
	}
	return contents(&mcp.ResourceContents{URI: uri, MIMEType: "application/octet-stream", Blob: data}), nil
}

// contents returns one resource. It sends an empty text as a blob, because the SDK omits an
// empty text and clients refuse a resource with neither text nor blob.
func contents(c *mcp.ResourceContents) *mcp.ReadResourceResult {
	if c.Text == "" && c.Blob == nil {
		c.Blob = []byte{}
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{c}}
}
