package cluster_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"conclave/worker/cluster"
)

// authority issues certificates for 127.0.0.1.
type authority struct {
	dir         string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.certificate, a.key = a.issue(t, "authority", true)
	return a
}

// issue writes NAME.pem and NAME.key, signed by the authority, or by itself if it is one.
func (a *authority) issue(t *testing.T, name string, isCA bool) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: isCA, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	parent, signer := template, key
	if !isCA {
		parent, signer = a.certificate, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	a.write(t, name+".pem", "CERTIFICATE", der)
	a.write(t, name+".key", "PRIVATE KEY", private)
	certificate, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return certificate, key
}

func (a *authority) write(t *testing.T, name, kind string, data []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(a.path(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600))
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name) }

func (a *authority) credentials(t *testing.T, demand bool) credentials.TransportCredentials {
	t.Helper()
	a.issue(t, "server", false)
	own, err := tls.LoadX509KeyPair(a.path("server.pem"), a.path("server.key"))
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	c := &tls.Config{Certificates: []tls.Certificate{own}, ClientCAs: pool, ClientAuth: tls.VerifyClientCertIfGiven}
	if demand {
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return credentials.NewTLS(c)
}

// frontend is a Temporal service that notes who calls it, and the workflow that is started.
type frontend struct {
	workflowservice.UnimplementedWorkflowServiceServer
	callers chan string // the client's certificate and its API key
	started chan *workflowservice.StartWorkflowExecutionRequest
}

func (f frontend) GetSystemInfo(ctx context.Context, _ *workflowservice.GetSystemInfoRequest) (*workflowservice.GetSystemInfoResponse, error) {
	caller := ""
	if from, ok := peer.FromContext(ctx); ok {
		if info, ok := from.AuthInfo.(credentials.TLSInfo); ok && len(info.State.PeerCertificates) > 0 {
			caller = info.State.PeerCertificates[0].Subject.CommonName
		}
	}
	sent, _ := metadata.FromIncomingContext(ctx)
	f.callers <- caller + strings.Join(sent.Get("authorization"), "")
	return &workflowservice.GetSystemInfoResponse{}, nil
}

func (f frontend) StartWorkflowExecution(_ context.Context, r *workflowservice.StartWorkflowExecutionRequest) (*workflowservice.StartWorkflowExecutionResponse, error) {
	f.started <- r
	return &workflowservice.StartWorkflowExecutionResponse{RunId: "r"}, nil
}

func serveFrontend(t *testing.T, c credentials.TransportCredentials) frontend {
	t.Helper()
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "TEMPORAL_") {
			t.Setenv(name, "") // restores the value after the test
			require.NoError(t, os.Unsetenv(name))
		}
	}
	t.Setenv("HOME", t.TempDir())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f := frontend{callers: make(chan string, 100), started: make(chan *workflowservice.StartWorkflowExecutionRequest, 1)}
	server := grpc.NewServer(grpc.Creds(c))
	workflowservice.RegisterWorkflowServiceServer(server, f)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	t.Setenv("TEMPORAL_ADDRESS", listener.Addr().String())
	return f
}

// dial connects as every command and worker does.
func dial(t *testing.T) (client.Client, error) {
	t.Helper()
	options, found, err := cluster.Options("", "")
	require.NoError(t, err)
	require.True(t, found)
	c, err := cluster.Dial(t.Context(), options, slog.New(slog.DiscardHandler))
	if err == nil {
		t.Cleanup(c.Close)
	}
	return c, err
}

func TestDial_mutualTLS(t *testing.T) {
	a := newAuthority(t)
	f := serveFrontend(t, a.credentials(t, true))
	a.issue(t, "worker", false)
	t.Setenv("TEMPORAL_TLS_SERVER_CA_CERT_PATH", a.path("authority.pem"))
	t.Setenv("TEMPORAL_TLS_CLIENT_CERT_PATH", a.path("worker.pem"))
	t.Setenv("TEMPORAL_TLS_CLIENT_KEY_PATH", a.path("worker.key"))
	_, err := dial(t)
	require.NoError(t, err)
	require.Equal(t, "worker", <-f.callers)
}

func TestDial_apiKey(t *testing.T) {
	a := newAuthority(t)
	f := serveFrontend(t, a.credentials(t, false))
	t.Setenv("TEMPORAL_TLS_SERVER_CA_CERT_PATH", a.path("authority.pem"))
	t.Setenv("TEMPORAL_API_KEY", "secret-key")
	_, err := dial(t)
	require.NoError(t, err)
	require.Equal(t, "Bearer secret-key", <-f.callers)
}

func TestDial_profile(t *testing.T) {
	a := newAuthority(t)
	f := serveFrontend(t, a.credentials(t, true))
	a.issue(t, "operator", false)
	profile := "[profile.prod]\naddress = \"" + os.Getenv("TEMPORAL_ADDRESS") + "\"\n[profile.prod.tls]\n" +
		"server_ca_cert_path = \"" + a.path("authority.pem") + "\"\nclient_cert_path = \"" + a.path("operator.pem") + "\"\nclient_key_path = \"" + a.path("operator.key") + "\"\n"
	require.NoError(t, os.WriteFile(a.path("temporal.toml"), []byte(profile), 0o600))
	require.NoError(t, os.Unsetenv("TEMPORAL_ADDRESS"))
	t.Setenv("TEMPORAL_CONFIG_FILE", a.path("temporal.toml"))
	t.Setenv("TEMPORAL_PROFILE", "prod")
	_, err := dial(t)
	require.NoError(t, err)
	require.Equal(t, "operator", <-f.callers)
}

// A client without a certificate may only see that the connection ends.
func TestDial_refusedByTLS(t *testing.T) {
	for name, tt := range map[string]struct {
		env  map[string]string
		says string
	}{
		"unknown authority":     {map[string]string{"TEMPORAL_TLS": "true"}, "certificate signed by unknown authority"},
		"no client certificate": {map[string]string{"TEMPORAL_TLS_SERVER_CA_CERT_PATH": "authority.pem"}, "connect to Temporal at 127.0.0.1:"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAuthority(t)
			serveFrontend(t, a.credentials(t, true))
			for variable, value := range tt.env {
				if strings.HasSuffix(value, ".pem") {
					value = a.path(value)
				}
				t.Setenv(variable, value)
			}
			_, err := dial(t)
			require.Error(t, err)
			require.Contains(t, cluster.Explain(err), tt.says)
		})
	}
}

func TestDial_encryptsPayloads(t *testing.T) {
	f := serveFrontend(t, insecure.NewCredentials())
	key, err := cluster.NewCodecKey("k1")
	require.NoError(t, err)
	t.Setenv(cluster.KeyVariable, key)
	c, err := dial(t)
	require.NoError(t, err)
	_, err = c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "s1", TaskQueue: "q", Memo: map[string]any{"query": "a secret"}}, "Session", "a secret")
	require.NoError(t, err)
	sent := <-f.started
	require.Equal(t, "binary/encrypted", string(sent.GetInput().GetPayloads()[0].GetMetadata()["encoding"]))
	require.Equal(t, "binary/encrypted", string(sent.GetMemo().GetFields()["query"].GetMetadata()["encoding"]))
	require.NotContains(t, sent.String(), "a secret")
	require.Equal(t, "s1", sent.GetWorkflowId())
}

func TestOptions_refuseABrokenKey(t *testing.T) {
	serveFrontend(t, insecure.NewCredentials())
	t.Setenv(cluster.KeyVariable, "k1:short")
	_, _, err := cluster.Options("", "")
	require.ErrorContains(t, err, "read CONCLAVE_PAYLOAD_KEY: the key k1 is not 32 bytes in base64")
}
