package doctor

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"

	"conclave/activities/sandbox/attack"
)

// TestMain lets this binary act as the child processes of attacks.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == attack.ChildCommand {
		os.Exit(attack.RunChild(os.Args[2:], os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// frontend is a Temporal service with the requests of doctor. It knows the namespace default.
type frontend struct {
	workflowservice.UnimplementedWorkflowServiceServer
	version string
	workers int
}

func (f frontend) GetSystemInfo(context.Context, *workflowservice.GetSystemInfoRequest) (*workflowservice.GetSystemInfoResponse, error) {
	return &workflowservice.GetSystemInfoResponse{ServerVersion: f.version}, nil
}

func (f frontend) DescribeNamespace(_ context.Context, r *workflowservice.DescribeNamespaceRequest) (*workflowservice.DescribeNamespaceResponse, error) {
	if r.GetNamespace() != "default" {
		return nil, serviceerror.ToStatus(serviceerror.NewNamespaceNotFound(r.GetNamespace())).Err()
	}
	return &workflowservice.DescribeNamespaceResponse{}, nil
}

func (f frontend) DescribeTaskQueue(context.Context, *workflowservice.DescribeTaskQueueRequest) (*workflowservice.DescribeTaskQueueResponse, error) {
	return &workflowservice.DescribeTaskQueueResponse{Pollers: make([]*taskqueue.PollerInfo, f.workers)}, nil
}

func (f frontend) serve(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	workflowservice.RegisterWorkflowServiceServer(server, f)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

// bucket is an S3 server with one bucket. It honours conditional writes only if the test says so.
type bucket struct {
	conditional bool
	missing     bool
	behind      time.Duration // its clock

	mu      sync.Mutex
	objects map[string][]byte
}

func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w.Header().Set("Date", time.Now().Add(-b.behind).UTC().Format(http.TimeFormat))
	stored, found := b.objects[r.URL.Path]
	switch {
	case b.missing:
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "<Error><Code>NoSuchBucket</Code><Message>none</Message></Error>")
	case r.Method == http.MethodPut && found && b.conditional:
		w.WriteHeader(http.StatusPreconditionFailed)
	case r.Method == http.MethodPut:
		b.objects[r.URL.Path], _ = io.ReadAll(r.Body)
	case r.Method == http.MethodGet && found:
		_, _ = w.Write(stored)
	case r.Method == http.MethodDelete:
		delete(b.objects, r.URL.Path)
		w.WriteHeader(http.StatusNoContent)
	case r.Method != http.MethodHead:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (b *bucket) serve(t *testing.T) {
	t.Helper()
	b.objects = map[string][]byte{}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	t.Setenv("AWS_ENDPOINT_URL_S3", server.URL)
	t.Setenv("AWS_REGION", "us-east-1")
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
}
