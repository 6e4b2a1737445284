package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"conclave/engine/artifact"
)

// clientRoot means the client's root if it is given as a base or a context. Any other
// value is the reference of a stored directory.
const clientRoot = "."

// rootsRequest is the ID under which a call asks the client for its roots.
const rootsRequest = "roots"

// usesRoot reports whether the question uses the client's root.
func (in ask) usesRoot() bool {
	for _, c := range in.Context {
		if c.Manifest == clientRoot {
			return true
		}
	}
	return in.Base == clientRoot
}

// material returns the files that a question starts from, and the directory of its base.
// If asks is not nil, it requests the client's roots, and the client repeats the call
// with them.
func (s server) material(ctx context.Context, req *mcp.CallToolRequest, in ask) (m artifact.Material, dir string, asks *mcp.CallToolResult, err error) {
	m = artifact.Material{Base: in.Base, Context: in.Context}
	if in.usesRoot() {
		granted, asked := req.Params.InputResponses[rootsRequest].(*mcp.ListRootsResult)
		if !asked {
			return m, "", askRoots(), s.mayAskRoots(req)
		}
		if dir, err = rootOf(granted.Roots); err != nil {
			return m, "", nil, err
		}
		if err := s.uploadRoot(ctx, &m, dir); err != nil {
			return m, "", nil, err
		}
	}
	if in.Base != clientRoot {
		dir = ""
	}
	return m, dir, nil, s.desk.CheckMaterial(ctx, m)
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

func askRoots() *mcp.CallToolResult {
	return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{rootsRequest: &mcp.ListRootsParams{}}}
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

// rootOf returns the directory of the only root.
func rootOf(roots []*mcp.Root) (string, error) {
	if len(roots) != 1 {
		var uris []string
		for _, r := range roots {
			uris = append(uris, r.URI)
		}
		return "", fmt.Errorf(`"." is the root of the client's workspace, of which the client grants %d (%s); `+
			"grant one, or give the reference sha256:… that `conclave upload DIR` prints", len(roots), strings.Join(uris, ", "))
	}
	u, err := url.Parse(roots[0].URI)
	if err != nil || u.Scheme != "file" || u.Host != "" && u.Host != "localhost" || !filepath.IsAbs(filepath.FromSlash(u.Path)) {
		return "", fmt.Errorf("the client's root is %.200q, which names no directory of this machine; a root is file:///DIR", roots[0].URI)
	}
	return filepath.FromSlash(u.Path), nil
}
