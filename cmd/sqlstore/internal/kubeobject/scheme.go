package kubeobject

import (
	"sync"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgo "k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/install"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// kinds are the types of all built-in kinds. They are registered when the first value needs them, so that a server does
// not pay for them at its start.
type kinds struct {
	scheme *runtime.Scheme
	// typed decodes the protobuf of built-in kinds.
	typed  runtime.Serializer
	codecs serializer.CodecFactory
}

var builtin = sync.OnceValue(func() *kinds {
	k := &kinds{scheme: runtime.NewScheme()}
	metav1.AddToGroupVersion(k.scheme, schema.GroupVersion{Version: "v1"})
	utilruntime.Must(clientgo.AddToScheme(k.scheme))
	apiextensions.Install(k.scheme)
	apiregistration.Install(k.scheme)
	k.typed, k.codecs = protobuf.NewSerializer(k.scheme, k.scheme), serializer.NewCodecFactory(k.scheme)
	return k
})

// served has the version that clients see of the groups whose objects are stored as another one.
var served = map[string]schema.GroupVersion{
	apiextensionsv1.GroupName:   apiextensionsv1.SchemeGroupVersion,
	apiregistrationv1.GroupName: apiregistrationv1.SchemeGroupVersion,
}
