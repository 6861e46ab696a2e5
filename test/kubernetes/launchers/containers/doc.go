// Package containers tests the image of sqlstore in the place of etcd's image.
package containers
