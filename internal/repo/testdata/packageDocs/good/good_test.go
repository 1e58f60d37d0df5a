package good_test
