package devserver

import (
	"os"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/s3response"
)

// attributes stores the attributes of objects in extended attributes. The file of an expected
// object is synced once, when its last attribute is stored and before it gets its key.
type attributes struct {
	meta.XattrMeta
	sync func(*os.File) error

	mu       sync.Mutex
	expected map[*os.File]bool // whether the file has been synced
}

// lastAttribute is the attribute that the backend stores last for a plain object.
const lastAttribute = "content-type"

// plain reports whether lastAttribute is the last attribute of this object, too.
func plain(in s3response.PutObjectInput) bool {
	return aws.ToString(in.ContentType) != "" && len(in.Metadata) == 0 && in.ObjectLockLegalHoldStatus == "" && in.ObjectLockMode == "" &&
		aws.ToString(in.ContentEncoding)+aws.ToString(in.ContentLanguage)+aws.ToString(in.ContentDisposition)+aws.ToString(in.CacheControl)+
			aws.ToString(in.Expires)+aws.ToString(in.WebsiteRedirectLocation)+aws.ToString(in.Tagging) == ""
}

// expect arranges for the file of a new object to be synced with its last attribute.
func (a *attributes) expect(f *os.File) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.expected == nil {
		a.expected = map[*os.File]bool{}
	}
	a.expected[f] = false
}

// forget reverts expect and reports whether the file was synced.
func (a *attributes) forget(f *os.File) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	synced := a.expected[f]
	delete(a.expected, f)
	return synced
}

// StoreAttribute implements meta.MetadataStorer.
func (a *attributes) StoreAttribute(f *os.File, bucket, object, name string, value []byte) error {
	if err := a.XattrMeta.StoreAttribute(f, bucket, object, name, value); err != nil || f == nil || name != lastAttribute {
		return err
	}
	a.mu.Lock()
	_, expected := a.expected[f]
	a.mu.Unlock()
	if !expected {
		return nil
	}
	if err := a.sync(f); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.expected[f] = true
	return nil
}
