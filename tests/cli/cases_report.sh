# cases_report.sh: `mmchain report`: usage. What pages hold is in check_report.py. Sourced by run.sh.

check report_page 0 report $clrs --on ref -o page.html
holds report_page_whole sh -c 'head -1 page.html | grep -q "<!DOCTYPE html>" && tail -1 page.html | grep -q "</html>"'
check report_files 0 report A.npy B.npy:T v.npy --on ref -o files.html --no-sync
holds report_files_chain grep -q '<h1>f32:10x30x5x1:NTT</h1>' files.html
check report_bool 0 report bool:10x20x30 --on ref -o bool.html
check report_no_output 2 report $clrs
check report_no_chain 2 report -o absent.html
check report_one 2 report 10x30 -o absent.html
check report_bad_chain 2 report '10x<script>' -o absent.html
check report_semiring 2 report f64~max-plus:20x30x40 -o absent.html
check report_objective 2 report $clrs -o absent.html --for flops
check report_slowdown 2 report $clrs -o absent.html --max-slowdown 1.1
check report_precision 2 report $clrs -o absent.html --precision 1.5
check report_seconds 2 report $clrs -o absent.html --seconds soon
check report_device 2 report $clrs -o absent.html --on gpu
check report_meter 2 report $clrs -o absent.html --on ref --meter nothing --seconds 0
check report_overflow 2 report 4611686018427387904x4611686018427387904x4611686018427387904 -o absent.html
absent report_left absent.html
check report_directory 2 report $clrs -o said
check report_unwritable 2 report $clrs -o no/such/directory/page.html
check report_full 2 report $clrs --on ref -o /dev/full
ln -s A.npy link.html
check report_onto_factor 2 report A.npy B.npy:T -o link.html
check report_matrix 2 report A.npy B.npy:T -o A.npy
temporaries report_temporaries .
